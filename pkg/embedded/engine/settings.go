package engine

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// engineArgs writes the engine's configuration into the data folder and
// returns the arguments that name it. Without such an argument the library would
// read a configuration from the working folder or the home folder.
func engineArgs(s spec) ([]string, error) {
	dir := filepath.Join(s.DataDir, "config")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("write the engine's configuration: %w", err)
	}
	config, users := filepath.Join(dir, "config.xml"), filepath.Join(dir, "users.xml")
	for path, text := range map[string]string{config: serverXML(s, users), users: usersXML(s)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("write the engine's configuration: %w", err)
		}
	}
	return []string{"--path=" + filepath.Join(s.DataDir, "clickhouse"), "--config-file=" + config}, nil
}

// serverXML is the server's configuration. It keeps the engine small, because on
// a laptop it is idle most of the time. Checking its memory once a second
// instead of 20 times lowers the idle process from 0.4 % of a core to 0.05 %
// (measured).
//
// The log contains only background work. Errors of statements are answered to
// their clients, and ThreadStatus would log a meaningless line for each insert.
func serverXML(s spec, users string) string {
	memory := "<max_server_memory_usage_to_ram_ratio>0.5</max_server_memory_usage_to_ram_ratio>"
	if s.MemoryLimit > 0 {
		memory = fmt.Sprintf("<max_server_memory_usage>%d</max_server_memory_usage>", s.MemoryLimit)
	}
	return fmt.Sprintf(`<clickhouse>
  <users_config>%s</users_config>
  <timezone>UTC</timezone>
  %s
  <background_pool_size>2</background_pool_size>
  <memory_worker_period_ms>1000</memory_worker_period_ms>
  <backups><allowed_path>%s</allowed_path></backups>
  <log-level>error</log-level>
  <logger>
    <console>1</console>
    <levels>
      <executeQuery>none</executeQuery>
      <ThreadStatus>none</ThreadStatus>
    </levels>
  </logger>
</clickhouse>
`, escaped(users), memory, escaped(filepath.Join(s.DataDir, "backups")))
}

// usersXML grants the only user what Logboom needs and nothing outside the
// engine: no files, no network, no shutdown. The HTTP front checks the password,
// because connections inside the library need none.
//
// The settings make statements behave as on a server, where the library's
// defaults differ. The profilers are off because they use signals, which the Go
// runtime owns.
func usersXML(s spec) string {
	return fmt.Sprintf(`<clickhouse>
  <profiles>
    <default>
      <max_threads>%d</max_threads>
      <implicit_select>0</implicit_select>
      <allow_introspection_functions>0</allow_introspection_functions>
      <query_profiler_real_time_period_ns>0</query_profiler_real_time_period_ns>
      <query_profiler_cpu_time_period_ns>0</query_profiler_cpu_time_period_ns>
    </default>
  </profiles>
  <users>
    <default>
      <password></password>
      <networks><ip>::/0</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
      <grants>
        <query>GRANT ALL ON *.*</query>
        <query>REVOKE SOURCES, SYSTEM SHUTDOWN ON *.*</query>
      </grants>
    </default>
  </users>
  <quotas><default></default></quotas>
</clickhouse>
`, s.Threads)
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // writing to a strings.Builder never fails
	return b.String()
}
