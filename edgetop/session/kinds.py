"""The kinds of sensor ids and their units (the session format, "Sensor ids")."""

UNIT_OF_KIND = {
    "temp": "°C",
    "freq": "MHz",
    "freqcap": "MHz",
    "cooling": "state",
    "throttle": "0/1",
    "power": "W",
    "volt": "V",
    "current": "A",
    "mem": "MiB",
    "load": "%",
    "pressure": "%",
    "rate": "1/s",
    "fan": "rpm",
    "net": "B/s",
    "disk": "B/s",
}
