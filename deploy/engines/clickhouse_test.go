package engines

import (
	"encoding/xml"
	"slices"
	"strings"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

// usersFile holds the parts of clickhouse-users.xml that the tests check.
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

func TestClickHouseUsersHaveLeastRights(t *testing.T) {
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
			t.Errorf("user %s has a password in the file, no list of rights, or the default profile", user.XMLName.Local)
		}
		for _, grant := range user.Grants {
			for _, outward := range []string{" ALL ", "*.* ", "SOURCES", "URL", "FILE", "S3", "REMOTE", "SYSTEM ", "ACCESS"} {
				if strings.Contains(grant+" ", outward) {
					t.Errorf("user %s: %s gives access to more than the tables", user.XMLName.Local, grant)
				}
			}
			if user.XMLName.Local != "logboom_admin" && (strings.Contains(grant, "CREATE") || strings.Contains(grant, "DROP")) {
				t.Errorf("user %s: %s lets the user create or drop tables", user.XMLName.Local, grant)
			}
		}
	}
	if want := []string{"default", "logboom_admin", "logboom_writer", "logboom_notifier", "logboom_reader"}; !slices.Equal(names, want) {
		t.Errorf("users %v, want %v", names, want)
	}
}

// The names of rights change between versions. A server does not start with a
// name that it does not know.
func TestClickHouseParsesTheGrants(t *testing.T) {
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
			if err := db.QueryRowContext(t.Context(), "SELECT formatQuery({grant:String})", ch.Named("grant", grant+" TO anyone")).Scan(&parsed); err != nil {
				t.Errorf("%s: %v", grant, err)
			}
		}
	}
}

func TestServerSettingsAreWellFormed(t *testing.T) {
	t.Parallel()
	var root struct{ XMLName xml.Name }
	if err := xml.Unmarshal([]byte(read(t, "clickhouse-server.xml")), &root); err != nil || root.XMLName.Local != "clickhouse" {
		t.Errorf("root element is %v, error %v", root.XMLName, err)
	}
}
