#!/bin/sh
# What a colleague did on this host by hand, a year ago.
set -eu
export DEBIAN_FRONTEND=noninteractive
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 0755 /usr/sbin/policy-rc.d

# An old driver from the vendor's repository, every package named, the repository taken out again.
cat >/etc/apt/sources.list.d/vendor.list <<LIST
deb [signed-by=/usr/share/keyrings/lab-debian.asc] file:/srv/lab-repo/nvidia debian12 main
LIST
apt-get update -q
names="nvidia-open nvidia-driver-cuda nvidia-kernel-open-dkms nvidia-kernel-support firmware-nvidia-gsp
    nvidia-modprobe libcuda1 libnvidia-ml1 nvidia-persistenced"
# shellcheck disable=SC2046
apt-get install -q -y --no-install-recommends $(for n in $names; do echo "$n=$OLD_DRIVER-1"; done)
apt-get install -q -y tree hello
rm -rf /etc/apt/sources.list.d/vendor.list /var/lib/apt/lists/*

# Holds of the site: its container runtime, one of its tools, and two packages of the driver, not all.
apt-mark hold containerd runc tree nvidia-driver-cuda libcuda1

# Site files with a say in the same matters.
cat >/etc/modprobe.d/site-gpu.conf <<'CONF'
# site: profiling for everyone, ticket OPS-118
options nvidia NVreg_RestrictProfilingToAdminUsers=0
CONF
cat >/etc/modprobe.d/blacklist-nouveau.conf <<'CONF'
# by hand, when the cards were put in
blacklist nouveau
CONF
cat >/etc/apt/preferences.d/site-containerd <<'PREF'
Explanation: the container runtime moves with the cluster tool, never by itself
Package: containerd runc
Pin: version *
Pin-Priority: 50
PREF
cat >/etc/apt/apt.conf.d/90site <<'CONF'
// the site's own choice
Acquire::Retries "3";
APT::Install-Recommends "false";
CONF
mkdir -p /etc/systemd/system/containerd.service.d
cat >/etc/systemd/system/containerd.service.d/10-site.conf <<'UNIT'
[Service]
Environment=HTTP_PROXY= NO_PROXY=localhost,10.0.0.0/8
UNIT

mkdir -p /etc/containerd/certs.d
cp /prepared/config.toml /etc/containerd/config.toml
chmod 0640 /etc/containerd/config.toml
rm -f /usr/sbin/policy-rc.d
