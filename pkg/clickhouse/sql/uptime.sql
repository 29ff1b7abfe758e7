SELECT uptime()
