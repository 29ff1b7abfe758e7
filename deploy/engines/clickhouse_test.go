package engines

import (
	"encoding/xml"
	"slices"
	"strings"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

// usersFile is clickhouse-users.xml, as far as it matters here.
type usersFile struct {
	Users struct {
		All []struct {
			XMLName  xml.Name
			Remove   string `xml:"remove,attr"`
			Password struct {
				Variable string `xml:"from_env,attr"`
				Text     string `xml:",chardata"`
			} `xml:"password"`
			Profile string   `xml:"profile"`
			Grants  []string `xml:"grants>query"`
		} `xml:",any"`
	} `xml:"users"`
}

func TestUsersOfClickHouseHaveLeastRights(t *testing.T) {
	t.Parallel()
	var file usersFile
	if err := xml.Unmarshal([]byte(read(t, "clickhouse-users.xml")), &file); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, user := range file.Users.All {
		names = append(names, user.XMLName.Local)
		if user.XMLName.Local == "default" && user.Remove != "" {
			continue
		}
		if user.Password.Variable == "" || strings.TrimSpace(user.Password.Text) != "" || len(user.Grants) == 0 || user.Profile == "default" {
			t.Errorf("user %s has a password in the file, every right, or no bounds", user.XMLName.Local)
		}
		for _, grant := range user.Grants {
			for _, outward := range []string{" ALL ", "*.* ", "SOURCES", "URL", "FILE", "S3", "REMOTE", "SYSTEM ", "ACCESS"} {
				if strings.Contains(grant+" ", outward) {
					t.Errorf("user %s: %s reaches beyond the tables", user.XMLName.Local, grant)
				}
			}
			if user.XMLName.Local != "logboom_admin" && (strings.Contains(grant, "CREATE") || strings.Contains(grant, "DROP")) {
				t.Errorf("user %s: %s makes or drops tables", user.XMLName.Local, grant)
			}
		}
	}
	if want := []string{"default", "logboom_admin", "logboom_writer", "logboom_notifier", "logboom_reader"}; !slices.Equal(names, want) {
		t.Errorf("users %v, want %v", names, want)
	}
}

// The names of rights change between versions; a wrong one would keep a server
// from starting.
func TestClickHouseKnowsTheRights(t *testing.T) {
	t.Parallel()
	var file usersFile
	if err := xml.Unmarshal([]byte(read(t, "clickhouse-users.xml")), &file); err != nil {
		t.Fatal(err)
	}
	options, err := ch.ParseDSN(enginetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	db := ch.OpenDB(options)
	t.Cleanup(func() { _ = db.Close() })
	for _, user := range file.Users.All {
		for _, grant := range user.Grants {
			var parsed string
			if err := db.QueryRowContext(t.Context(), "SELECT formatQuery({grant:String})", ch.Named("grant", grant+" TO somebody")).Scan(&parsed); err != nil {
				t.Errorf("%s: %v", grant, err)
			}
		}
	}
}

func TestServerSettingsAreWellFormed(t *testing.T) {
	t.Parallel()
	var any struct{ XMLName xml.Name }
	if err := xml.Unmarshal([]byte(read(t, "clickhouse-server.xml")), &any); err != nil || any.XMLName.Local != "clickhouse" {
		t.Errorf("%v: %v", any.XMLName, err)
	}
}
