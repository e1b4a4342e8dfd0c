"""List the files that a capture takes, and the commands whose output it takes. No other file is opened.

A path is relative to the board's root; `*` matches within one name. Left out on purpose are serial numbers and UUIDs
(device tree, DMI), names that users give to devices, and all data of processes. Two more files are left out. Reading
`cpuinfo_cur_freq` disturbs the clock on a Tegra. Reading `curr*_alarm` clears alarms that an INA3221 has latched
(drivers/hwmon/ina3221.c).
"""

from collections.abc import Iterator

_ZONE = "type temp mode policy available_policies trip_point_*_type trip_point_*_temp trip_point_*_hyst"
_HWMON = (
    "name update_interval samples in*_input in*_label in*_enable in*_alarm in*_crit in*_max in*_min in*_lcrit "
    "curr*_input curr*_label curr*_crit curr*_max curr*_average shunt*_resistor "
    "power*_input power*_average power*_label power*_cap power*_max power*_crit energy*_input energy*_label "
    "temp*_input temp*_label temp*_crit temp*_max temp*_min temp*_emergency temp*_alarm temp*_fault temp*_enable "
    "temp*_type fan*_input fan*_label fan*_min fan*_max fan*_fault fan*_target pwm? pwm?_enable "
    "oc*_event_cnt oc*_throt_en humidity*_input"
)
_POLICY = (
    "affected_cpus related_cpus scaling_cur_freq scaling_max_freq scaling_min_freq scaling_governor scaling_driver "
    "scaling_available_governors scaling_available_frequencies scaling_boost_frequencies cpuinfo_max_freq "
    "cpuinfo_min_freq base_frequency energy_performance_preference bios_limit"
)
_SUPPLY = (
    "type scope online present status capacity voltage_now current_now power_now current_max voltage_max "
    "voltage_min_design energy_now energy_full usb_type"
)
_CHIP = "name rail_name_* in_* crit_current_limit_* warn_current_limit_*"
_CGROUP = (
    "cgroup.controllers memory.current memory.peak memory.max memory.events memory.stat memory.pressure "
    "memory/memory.usage_in_bytes memory/memory.max_usage_in_bytes memory/memory.limit_in_bytes memory/memory.stat "
    "memory/memory.oom_control"
)
_GPU = "load devfreq/*/cur_freq devfreq/*/max_freq devfreq/*/min_freq devfreq/*/governor railgate_enable"

# Names of files by folder.
_FILES = {
    "sys/class/thermal/thermal_zone*": f"{_ZONE} cdev*_trip_point cdev*_weight cdev*/type",
    "sys/class/thermal/cooling_device*": "type cur_state max_state",
    "sys/class/hwmon/hwmon*": f"{_HWMON} device/name of_node/name",
    "sys/class/hwmon/hwmon*/device": _HWMON,
    "sys/devices/system/cpu": "online offline present possible isolated smt/active smt/control",
    "sys/devices/system/cpu/cpufreq": "boost",
    "sys/devices/system/cpu/cpufreq/policy*": _POLICY,
    "sys/devices/system/cpu/cpu*/cpufreq": "affected_cpus",
    "sys/devices/system/cpu/cpu*": (
        "online thermal_throttle/core_* thermal_throttle/package_* topology/core_id topology/cluster_id "
        "topology/physical_package_id topology/die_id topology/package_cpus_list topology/thread_siblings_list "
        "cpu_capacity regs/identification/midr_el1"
    ),
    "sys/devices/system/cpu/cpu*/cache/index*": "level type size shared_cpu_list coherency_line_size",
    "sys/devices/system/cpu/intel_pstate": "status no_turbo turbo_pct max_perf_pct min_perf_pct",
    "sys/devices/system/cpu/amd_pstate": "status prefcore",
    "sys/devices/system/cpu/cpuidle": "current_driver current_governor",
    "sys/devices/system/clocksource/clocksource0": "current_clocksource",
    **{f"sys/bus/event_source/devices/{pmu}": "type cpus format/* events/*" for pmu in ("cpu*", "arm*", "apple*")},
    **{
        f"sys/bus/event_source/devices/{pmu}": "type cpumask format/* events/*"
        for pmu in ("rockchip_ddr", "uncore_imc*", "amd_umc_*")
    },
    "sys/class/powercap/*": "name enabled energy_uj max_energy_range_uj power_uw constraint_*",
    "sys/class/power_supply/*": _SUPPLY,
    "sys/class/devfreq/*": (
        "cur_freq min_freq max_freq target_freq governor load available_frequencies name device/load"
    ),
    "sys/class/apex/apex_*": "temp trip_point*_temp temp_poll_interval hw_temp_warn* status",
    "sys/class/accel/accel*/device": (
        "npu_busy_time_us npu_current_frequency_mhz npu_max_frequency_mhz npu_memory_utilization sched_mode vbnv "
        "fw_version uevent"
    ),
    "sys/bus/platform/drivers/rocket/*.npu": "power/runtime_status power/runtime_active_time",
    "sys/class/hailo_chardev/*": "device_id board_location accelerator_type",
    "sys/bus/usb/devices/*": "idVendor idProduct speed version",
    "sys/bus/pci/devices/*": "vendor device class current_link_* max_link_*",
    "sys/class/drm/card?/device": "gpu_busy_percent mem_info_vram_used mem_info_vram_total vendor device",
    "sys/class/drm/card?": "gt_cur_freq_mhz gt_max_freq_mhz gt_boost_freq_mhz gt/gt?/throttle_reason_*",
    "sys/class/misc/mali?/device": "utilisation clock",
    "sys/bus/i2c/devices/*": "name",
    "sys/bus/i2c/drivers/ina*/*/hwmon/hwmon*": "name",
    "sys/bus/i2c/drivers/ina3221x/*": "name",
    "sys/bus/i2c/drivers/ina3221x/*/iio:device*": _CHIP,
    "sys/bus/iio/devices/iio:device*": _CHIP,
    "sys/devices/gpu.0": _GPU,
    "sys/devices/*.g*": _GPU,
    "sys/devices/host1x/*.g*": _GPU,
    "sys/devices/host1x/gpu.0": _GPU,
    "sys/devices/platform/gpu.0": _GPU,
    "sys/devices/platform/*.g*": _GPU,
    "sys/devices/platform/bus@0/*.g*": _GPU,
    "sys/devices/platform/host1x/*.g*": _GPU,
    "sys/devices/platform/soc*/*firmware": "get_throttled",
    "sys/class/dmi/id": "sys_vendor product_name product_family board_vendor board_name chassis_type bios_vendor",
    "sys/hypervisor": "type",
    "sys/firmware/acpi": "platform_profile platform_profile_choices",
    "sys/module/rknpu": "version",
    "sys/kernel/debug/rknpu": "load version",
    "sys/kernel/actmon_avg_activity": "mc_all",
    "sys/kernel/debug/tegra_central_actmon/mc_all": "avg_activity",
    "sys/kernel/debug/tegra_actmon/emc": "avg_activity",
    "sys/kernel/debug/cactmon": "mc_all sample_period_usec",
    "sys/kernel/debug/bpmp/debug/actmon": "mc_all_avg_activity",
    "sys/kernel/debug/bpmp/debug/clk/emc": "rate min_rate max_rate",
    "sys/kernel/debug/clk/emc": "clk_rate clk_max_rate",
    "sys/kernel/debug/clk/override.emc": "clk_rate",
    "sys/kernel/debug/tegra_bwmgr": "emc_rate emc_min_rate emc_max_rate",
    "sys/kernel/mm/transparent_hugepage": "enabled",
    "sys/fs/cgroup": _CGROUP,
    **{
        f"sys/block/{disk}*": "stat queue/rotational queue/scheduler" for disk in ("sd", "vd", "mmcblk", "nvme", "zram")
    },
    # What is hardware has a device (traffic.py). Every device has `uevent` (device_add in drivers/base/core.c).
    "sys/block/*": "device/uevent",
    **{f"sys/class/net/{name}*": "device/uevent" for name in ("eth", "en", "wl", "ww", "usb", "can")},
    "proc/device-tree": "model compatible chosen/power/max_current",
    "proc": "cpuinfo meminfo stat vmstat loadavg diskstats swaps cmdline",
    "proc/net": "dev",
    "proc/pressure": "cpu memory io",
    "proc/mpp_service": "load",
    "proc/rknpu": "load version",
    "proc/sys/kernel": "osrelease ostype perf_event_paranoid sched_rt_runtime_us",
    "proc/sys/vm": "swappiness overcommit_memory",
    "etc": "os-release nv_tegra_release nvpmodel.conf rpi-issue *-release debian_version",
    "var/lib/nvpmodel": "status",
}

# Commands whose output is taken if they are installed. `root.run_command` replays them.
COMMANDS = (
    ("vcgencmd", "get_throttled"),
    ("vcgencmd", "measure_temp"),
    ("vcgencmd", "measure_clock", "arm"),
    ("vcgencmd", "measure_clock", "core"),
    ("vcgencmd", "measure_clock", "v3d"),
    ("vcgencmd", "measure_volts", "core"),
    ("vcgencmd", "pmic_read_adc"),
    ("nvpmodel", "-q"),
    ("hailortcli", "measure-power"),
)


def paths() -> Iterator[tuple[str, ...]]:
    """Yield the path pattern of each wanted file as a tuple, such as `("sys", "class", "apex", "apex_*", "temp")`."""
    for folder, names in _FILES.items():
        for name in names.split():
            yield tuple(f"{folder}/{name}".split("/"))
