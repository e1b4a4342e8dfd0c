"""An `/etc/nvpmodel.conf` in the shape that NVIDIA gives it, cut down to two modes."""

CONF = """\
# /sys/devices/ in a comment is no path
< PARAM TYPE=FILE NAME=CPU_ONLINE >
CORE_0 /sys/devices/system/cpu/cpu0/online
CORE_4 /sys/devices/system/cpu/cpu4/online

< PARAM TYPE=CLOCK NAME=CPU_A78_0 >
MAX_FREQ /sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq
MIN_FREQ /sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq

< PARAM TYPE=CLOCK NAME=GPU >
MAX_FREQ /sys/devices/17000000.ga10b/devfreq/17000000.ga10b/max_freq

< POWER_MODEL ID=0 NAME=15W >
CPU_ONLINE CORE_0 1
CPU_A78_0 MIN_FREQ 729600
CPU_A78_0 MAX_FREQ 1497600
GPU MAX_FREQ 612000000

< POWER_MODEL ID=2 NAME=MAXN_SUPER >
CPU_A78_0 MAX_FREQ -1
GPU MAX_FREQ -1
GPU_POWER_CONTROL_DISABLE GPU_PWR_CNTL_DIS auto

# mandatory section to configure the default mode
< PM_CONFIG DEFAULT=1 >
"""
