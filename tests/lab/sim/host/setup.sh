#!/bin/sh
# Runs once while the image of a lab host is built.
set -eu
cd /opt/gpu-sim
chmod 0755 gpu-sim hold

# Users: ops (key, sudo without password), pw (key, sudo wants its password), root (key).
useradd -m -s /bin/bash ops
useradd -m -s /bin/bash pw
echo 'pw:open sesame' | chpasswd
printf 'ops ALL=(ALL) NOPASSWD: ALL\npw ALL=(ALL) ALL\n' >/etc/sudoers.d/lab
chmod 0440 /etc/sudoers.d/lab

mkdir -p /etc/ssh/sshd_config.d
cat >/etc/ssh/sshd_config.d/lab.conf <<'SSHD'
LogLevel VERBOSE
PermitRootLogin prohibit-password
PasswordAuthentication no
UseDNS no
MaxStartups 200
MaxSessions 200
SSHD
rm -f /etc/ssh/ssh_host_*

# The outer kernel's boot id outlives a container's restart: only a journal that a restart loses
# lets "this boot" mean this boot.
mkdir -p /etc/systemd/journald.conf.d
printf '[Journal]\nStorage=volatile\nRateLimitBurst=0\n' >/etc/systemd/journald.conf.d/lab.conf
rm -rf /var/log/journal
systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
    getty.target console-getty.service systemd-firstboot.service systemd-udevd.service \
    systemd-udev-trigger.service systemd-tmpfiles-clean.timer >/dev/null 2>&1

# No mirror of the outer world: ordinary packages come from the lab's copy.
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/99mmdebstrap
cp repo.asc /usr/share/keyrings/lab-debian.asc
cat >/etc/apt/sources.list.d/debian.sources <<SOURCES
Types: deb
URIs: file:/srv/lab-repo/debian
Suites: $SUITE
Components: main
Signed-By: /usr/share/keyrings/lab-debian.asc
SOURCES

# A lab's disk may lose what it was told to keep; installations are several times faster so.
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/lab

# kmod's tools go through the simulation; the real ones stay reachable for it.
mkdir -p real
for tool in modprobe rmmod modinfo; do ln -sf "$(command -v kmod)" real/$tool; done
divert() { dpkg-divert --local --rename --divert "$1.distrib" --add "$1"; ln -sf /opt/gpu-sim/gpu-sim "$1"; }
for tool in modprobe rmmod; do
    for path in $(dpkg -L kmod | grep "bin/$tool\$"); do divert "$path"; done
done
divert "$(dpkg -L systemd | grep '/systemd-modules-load$' | head -1)"

# The kernel as a Debian host has it: an image, headers, an initramfs built by the real tool.
KERNEL=$(uname -r)
mkdir -p "/lib/modules/$KERNEL/kernel" "/usr/src/linux-headers-$KERNEL/include"
cp headers/Makefile "/usr/src/linux-headers-$KERNEL/"
touch "/usr/src/linux-headers-$KERNEL/.config"
ln -sf "/usr/src/linux-headers-$KERNEL" "/lib/modules/$KERNEL/build"
touch "/lib/modules/$KERNEL/modules.order" "/lib/modules/$KERNEL/modules.builtin" \
    "/lib/modules/$KERNEL/modules.builtin.modinfo"
depmod "$KERNEL"
echo 'stand-in of the lab' >"/boot/vmlinuz-$KERNEL"
printf 'CONFIG_MODULES=y\nCONFIG_RD_ZSTD=y\nCONFIG_RD_GZIP=y\n' >"/boot/config-$KERNEL"
sed -i 's/^#\? *COMPRESSLEVEL=.*/COMPRESSLEVEL=1/' /etc/initramfs-tools/initramfs.conf
update-initramfs -c -k "$KERNEL" 2>&1 | tail -3

mkdir -p /var/lib/gpu-sim
cp gpu-sim.service /etc/systemd/system/
systemctl enable gpu-sim.service >/dev/null 2>&1
systemctl enable containerd.service ssh.service >/dev/null 2>&1
