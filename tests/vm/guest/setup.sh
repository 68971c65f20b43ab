#!/bin/sh
# Runs once in the new system while the machines' image is built; /opt/vm holds this folder and, in debs/, the kernel.
# ROOT_UUID names the file system that the machine will boot from.
set -eu
export DEBIAN_FRONTEND=noninteractive

# There is no disk yet that update-grub could look at; the machine's own is run whenever a kernel comes or goes.
mkdir -p /usr/local/sbin
printf '#!/bin/sh\nexit 0\n' >/usr/local/sbin/update-grub
chmod 0755 /usr/local/sbin/update-grub

# A short list instead of "most": an initramfs built by an emulated processor is a matter of seconds then.
# Nothing else about it differs, /etc/modprobe.d goes into it as anywhere.
sed -i -e 's/^MODULES=.*/MODULES=list/' -e 's/^#\? *COMPRESS=.*/COMPRESS=zstd/' \
    -e 's/^#\? *COMPRESSLEVEL=.*/COMPRESSLEVEL=1/' /etc/initramfs-tools/initramfs.conf
printf '%s\n' virtio_pci virtio_blk ext4 crc32c_generic crc32c_intel >>/etc/initramfs-tools/modules

# Drivers of hardware that nobody uses here; each costs an emulated processor up to a second of signature check.
for module in kvm kvm_amd kvm_intel powernow_k8 acpi_cpufreq aesni_intel ghash_clmulni_intel crct10dif_pclmul \
    crc32_pclmul sha512_ssse3 ata_piix ata_generic psmouse evdev joydev pcspkr i2c_piix4 floppy button parport_pc \
    loop dm_mod fuse drm qemu_fw_cfg; do
    echo "blacklist $module"
done >/etc/modprobe.d/vm.conf

dpkg -i /opt/vm/debs/*.deb
rm /usr/local/sbin/update-grub

# GRUB as grub-install leaves it, for a disk that is put together from outside.
mkdir -p /boot/grub
cp -r /usr/lib/grub/i386-pc /boot/grub/
grub-mkimage -O i386-pc -o /boot/grub/i386-pc/core.img -p '(hd0,msdos1)/boot/grub' biosdisk part_msdos ext2
# What an emulated processor need not do at each boot.
# no_timer_check: on a busy machine an emulated timer is late, for which the kernel would panic while it boots.
# norandmaps: QEMU translates code anew for each address that it is found at, so programs that are at the same one in
# every process run four times as fast (60 processes: 6 s instead of 23 s).
options='norandmaps console=ttyS0 mitigations=off no_timer_check fsck.mode=skip audit=0 cryptomgr.notests rcupdate.rcu_expedited=1'
cat >/etc/default/grub <<GRUB
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="$options"
GRUB_TERMINAL=console
GRUB_DISABLE_OS_PROBER=true
GRUB
kernel=$(ls /lib/modules)
cat >/boot/grub/grub.cfg <<GRUB
search --no-floppy --fs-uuid --set=root $ROOT_UUID
linux /boot/vmlinuz-$kernel root=UUID=$ROOT_UUID ro $options quiet
initrd /boot/initrd.img-$kernel
boot
GRUB

# Users: ops (key, sudo without a password) and root (key).
useradd -m -s /bin/bash ops
printf 'ops ALL=(ALL) NOPASSWD: ALL\n' >/etc/sudoers.d/vm
chmod 0440 /etc/sudoers.d/vm

# Keys and repositories are on the second disk: they change more often than the system does.
mkdir -p /srv/vm
ln -s vm/lab-repo /srv/lab-repo
cat >/etc/fstab <<FSTAB
UUID=$ROOT_UUID / ext4 errors=remount-ro 0 1
LABEL=vm-data /srv/vm ext4 ro 0 0
FSTAB
rm -f /etc/ssh/ssh_host_*
cat >/etc/ssh/sshd_config.d/vm.conf <<'SSHD'
LogLevel VERBOSE
HostKey /srv/vm/keys/ssh_host_ed25519_key
AuthorizedKeysFile /srv/vm/keys/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
UseDNS no
MaxStartups 200
MaxSessions 200
SSHD

# The tests' own way in is another sshd, so that the log of the first one tells of the product alone.
cat >/etc/ssh/vm-access.conf <<'SSHD'
Port 2222
HostKey /srv/vm/keys/ssh_host_ed25519_key
AuthorizedKeysFile /srv/vm/keys/authorized_keys
PasswordAuthentication no
UseDNS no
MaxSessions 100
PidFile /run/vm-access.pid
SSHD
cat >/etc/systemd/system/vm-access.service <<'UNIT'
[Unit]
Description=The tests' way into this machine
After=network.target
[Service]
ExecStart=/usr/sbin/sshd -D -f /etc/ssh/vm-access.conf
RuntimeDirectory=sshd
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes
Restart=always
[Install]
WantedBy=multi-user.target
UNIT

printf 'vm-a\n' >/etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 vm-a\n' >/etc/hosts
echo 5d2f0b6a1c6f4f0e9a43c87d1e90b7aa >/etc/machine-id
: >/etc/resolv.conf
cat >/etc/systemd/network/20-wired.network <<'NETWORK'
[Match]
Name=en* eth*
[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
IPv6AcceptRA=no
LinkLocalAddressing=no
NETWORK
systemctl enable systemd-networkd.service ssh.service vm-access.service containerd.service >/dev/null 2>&1
# Nothing that starts by itself while a test looks, and nothing that a boot only spends its time with.
systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
    fstrim.timer systemd-tmpfiles-clean.timer systemd-networkd-wait-online.service systemd-firstboot.service \
    getty.target serial-getty@ttyS0.service systemd-pstore.service \
    systemd-logind.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount >/dev/null 2>&1

# Ordinary packages come from the second disk, nothing from the outer world.
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/99mmdebstrap \
    /etc/dpkg/dpkg.cfg.d/99mmdebstrap
cp /opt/vm/repo.asc /usr/share/keyrings/lab-debian.asc
cat >/etc/apt/sources.list.d/debian.sources <<'SOURCES'
Types: deb
URIs: file:/srv/lab-repo/debian
Suites: debian12
Components: main
Signed-By: /usr/share/keyrings/lab-debian.asc
SOURCES
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/vm
rm -rf /var/log/apt/* /var/log/dpkg.log /var/lib/apt/lists/* /var/cache/apt/* /opt/vm
