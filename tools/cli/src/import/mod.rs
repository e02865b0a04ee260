//! `sluice import`: prints the configuration of another target as this target's TOML. Comments at its head name each
//! setting without a counterpart, and its nearest substitute.

mod imported;
mod nvmet;
mod running;
mod spdk;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;
use sluice_config::program::print;
use sluice_config::{Config, Machine};

/// The configuration to import.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Source {
    /// A file that `nvmetcli save` wrote, such as /etc/nvmet/config.json.
    Nvmetcli {
        /// The JSON file.
        file: PathBuf,
    },
    /// A file that SPDK's `rpc.py save_config` wrote.
    Spdk {
        /// The JSON file.
        file: PathBuf,
    },
    /// The kernel's target as it runs now.
    Running {
        /// The folder in which the kernel shows it.
        #[arg(long, value_name = "FOLDER", default_value = "/sys/kernel/config/nvmet")]
        configfs: PathBuf,
    },
}

/// Prints the imported configuration.
pub(crate) fn run(source: &Source) -> anyhow::Result<()> {
    let (imported, name) = match source {
        Source::Nvmetcli { file } => {
            let mut imported = nvmet::import(parse(file)?);
            imported.note(
                "DH-HMAC-CHAP keys, which nvmetcli does not save: if hosts had some, store them and set \
                 require_authentication"
                    .to_owned(),
            );
            (imported, file)
        }
        Source::Spdk { file } => (spdk::import(parse(file)?)?, file),
        Source::Running { configfs } => (nvmet::import(running::read(configfs)?), configfs),
    };
    if imported.subsystems.is_empty() {
        bail!("{} has no subsystem: there is nothing to serve", name.display());
    }
    let text = imported.render(&name.display().to_string());
    print(&text)?;
    if let Err(errors) = Config::parse_for(&text, Path::new("imported"), &Machine::present()) {
        bail!("the configuration needs changes before the daemon accepts it:\n{errors}");
    }
    Ok(())
}

/// Parses a JSON file.
fn parse<T: DeserializeOwned>(file: &Path) -> anyhow::Result<T> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} has another form", file.display()))
}

#[cfg(test)]
mod tests {
    use super::imported::Imported;
    use super::*;
    use crate::testing::folder;

    fn check(imported: &Imported) -> String {
        let text = imported.render("a test");
        Config::parse_for(&text, Path::new("test"), &Machine::present())
            .unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        text
    }

    fn assert_has(text: &str, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn nvmetcli_configuration_is_served_as_before() {
        let text =
            check(&nvmet::import(serde_json::from_str(include_str!("nvmetcli.json")).unwrap()));
        assert_has(
            &text,
            &[
                "in_capsule_data = \"16 KiB\"",
                "address = \"192.0.2.1:4420\"\n",
                "address = \"[2001:db8::1]:4420\"\ntransport = \"rdma\"\nsubsystems = [\"nqn.2014-08.org.x:b\"]",
                "serial = \"0123456789abcdef0123\"\nmodel = \"Linux\"",
                "# - Namespace 3 of nqn.2014-08.org.x:a is in ANA group 2, which is inaccessible here",
                "# - Namespace 1 of nqn.2014-08.org.x:a has persistent reservations",
                "# - nqn.2014-08.org.x:b passes /dev/nvme9 through",
                "# - The block size of /srv/disks/b.img",
                "hosts = [\"nqn.2014-08.org.x:host1\"]",
                "backend = \"block\"\npath = \"/dev/nvme0n1\"\nuuid = \"e8be2a0f-5ab2-4b8f-a2f8-d71c1be0d2a1\"\nforce = true",
                "backend = \"file\"\npath = \"/srv/disks/b.img\"",
                "# - Namespace 7 of nqn.2014-08.org.x:a is disabled",
                "# - Port 3: transport loop",
                "allow_any_host = true",
            ],
        );
        assert!(!text.contains("nsid = 7"), "a disabled namespace is not served");
        assert!(!text.contains("/dev/sdy"), "a disk of another node is not served");
        assert!(!text.contains("require_authentication = true"), "the file has no keys");
    }

    #[test]
    fn spdk_configuration_is_served_as_before() {
        let text =
            check(&spdk::import(serde_json::from_str(include_str!("spdk.json")).unwrap()).unwrap());
        assert_has(
            &text,
            &[
                "max_transfer = \"128 KiB\"",
                "queue_depth = 128",
                "address = \"192.0.2.1:4420\"\nsubsystems = [\"nqn.2016-06.io.spdk:cnode1\"]",
                "tls = \"required\"",
                "address = \"192.0.2.1:8009\"\ndiscovery_only = true",
                "path = \"/srv/aio.img\"\nblock_size = 512\nread_only = true\nhosts = [\"nqn.2014-08.org.x:host1\"]",
                "require_authentication = true\nhosts = [\"nqn.2014-08.org.x:host1\"]",
                "host_keys = \"/etc/sluicegate/keys\"",
                "# - Namespace 2 of nqn.2016-06.io.spdk:cnode2 is shown to no host",
                "backend = \"memory\"\nsize = \"67108864 B\"\nblock_size = 512\nuuid = \"2a2a3b52-7cd4-4d14-a8f2-4a4b9a1b0a5e\"",
                "backend = \"block\"\npath = \"/dev/disk/by-path/pci-0000:01:00.0-nvme-1\"\nforce = true",
                "backend = \"file\"\npath = \"/srv/aio.img\"\nblock_size = 512",
                "name = \"nqn.2016-06.io.spdk:cnode1/2\"\nbandwidth = \"100 MiB/s\"\niops = 20000",
                "# - Namespace 3 of nqn.2016-06.io.spdk:cnode1: bdev lvs/vol",
                "model = \"SPDK bdev Controller\"",
            ],
        );
    }

    #[test]
    fn running_target_is_read_from_its_folder() {
        let sub = |path: &str| format!("subsystems/nqn.2014-08.org.x:a/{path}");
        let folder = folder(&[
            (&sub("attr_allow_any_host"), "0\n"),
            (&sub("attr_serial"), "feed\n"),
            (&sub("attr_model"), "Linux\n"),
            (&sub("namespaces/1/device_path"), "/dev/sda\n"),
            (&sub("namespaces/1/enable"), "1\n"),
            (&sub("namespaces/1/device_uuid"), "e8be2a0f-5ab2-4b8f-a2f8-d71c1be0d2a1\n"),
            (&sub("namespaces/1/ana_grpid"), "1\n"),
            (&sub("namespaces/1/resv_enable"), "0\n"),
            (&sub("namespaces/2/enable"), "1\n"),
            (&sub("passthru/device_path"), "(null)\n"),
            (&sub("passthru/enable"), "0\n"),
            (&sub("allowed_hosts/nqn.2014-08.org.x:host1/dhchap_key"), "DHHC-1:00:c2VjcmV0:\n"),
            ("hosts/nqn.2014-08.org.x:host1/dhchap_key", "DHHC-1:00:c2VjcmV0:\n"),
            ("ports/1/addr_trtype", "tcp"),
            ("ports/1/addr_traddr", "192.0.2.9"),
            ("ports/1/addr_trsvcid", "4420"),
            ("ports/1/addr_tsas", "tls1.3\n"),
            ("ports/1/addr_treq", "not specified\n"),
            ("ports/1/ana_groups/1/ana_state", "optimized\n"),
            ("ports/1/subsystems/nqn.2014-08.org.x:a/attr_serial", "feed\n"),
            ("disk.img", ""),
        ]);
        let disk = folder.path().join("disk.img").display().to_string();
        std::fs::write(folder.path().join(sub("namespaces/2/device_path")), disk).unwrap();
        let text = check(&nvmet::import(running::read(folder.path()).unwrap()));
        assert_has(
            &text,
            &[
                "address = \"192.0.2.9:4420\"",
                "serial = \"feed\"",
                "hosts = [\"nqn.2014-08.org.x:host1\"]",
                "path = \"/dev/sda\"\nuuid = \"e8be2a0f-5ab2-4b8f-a2f8-d71c1be0d2a1\"",
                "tls = \"required\"",
                "require_authentication = true",
                "# - Host nqn.2014-08.org.x:host1 has a DH-HMAC-CHAP key",
                "nsid = 2",
            ],
        );
        assert!(!text.contains("DHHC-1"), "secrets stay out of the file");
        assert!(!text.contains("The block size of"), "the file's block size is known");
        let error = running::read(&folder.path().join("ports")).unwrap_err().to_string();
        assert!(error.contains("modprobe nvmet"), "{error}");
    }
}
