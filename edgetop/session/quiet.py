"""The limits of CPU use by other programs, above which a machine's figures are doubtful."""

# Mean CPU use of other processes, of one core, that is a warning. Choice: about as much as an idle desktop or
# container runtime takes. Larger: figures beside a load pass; smaller: every desktop gets a warning.
BACKGROUND_PCT = 10.0
# Mean time that a hypervisor stole, of one core, that is a warning. Choice: as much as other noise. Larger: figures
# of a crowded host pass; smaller: every virtual machine gets a warning.
STEAL_PCT = 1.0
