"""What boots: kernels and the driver's modules for them, Secure Boot, and whose signatures it accepts."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.model.fact import Output, Probe


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel. `headers`: its build folder is there, so that modules can be built for it. `driver`, `flavour`
    ("open", "proprietary") and `signer` are those of the nvidia module on disk for it, "" without one."""

    release: str
    headers: bool = False
    driver: str = ""
    flavour: str = ""
    signer: str = ""


@dataclass(frozen=True, slots=True)
class Kernels:
    """`running`, and `next`: the one that boots next, None where /boot holds no kernel (a container, or a kernel
    given from outside). `why_next` says how that was found. `command_line` is the running kernel's."""

    running: Kernel
    next: Kernel | None = None
    why_next: str = ""
    command_line: str = ""

    @property
    def both(self) -> tuple[Kernel, ...]:
        """The running kernel and, when it is another, the next one."""
        if self.next is None or self.next.release == self.running.release:
            return (self.running,)
        return (self.running, self.next)


@dataclass(frozen=True)
class KernelsProbe(Probe[Kernels]):
    """The running and the next kernel.

    Next is what GRUB's saved or chosen entry names, if that names an installed kernel; otherwise the newest in
    /boot, which is what GRUB's first entry boots (grub-mkconfig sorts with `sort -V`).
    """

    @property
    def key(self) -> str:
        return "kernels"

    def script(self) -> str:
        return r"""
k=$(uname -r)
[ -r /proc/cmdline ] && { printf 'cmdline '; cat /proc/cmdline; }
list=$(for f in /boot/vmlinuz-* /boot/vmlinux-*; do
    [ -e "$f" ] || continue
    r=${f##*/vmlinu?-}
    case $r in *rescue* | *.old | *.signed) ;; *) printf '%s\n' "$r" ;; esac
done | sort -uV)
n=$(printf '%s\n' "$list" | tail -n 1) why='it is the newest in /boot'
entry=$(sed -n 's/^ *GRUB_DEFAULT=//p' /etc/default/grub 2>/dev/null | tail -n 1)
for f in /boot/grub/grubenv /boot/grub2/grubenv; do
    [ -r "$f" ] || continue
    once=$(sed -n 's/^next_entry=//p' "$f") saved=$(sed -n 's/^saved_entry=//p' "$f")
    case $entry in *saved*) entry=$saved ;; esac
    entry=${once:-$entry}
done
case $entry in
'' | 0 | '"0"' | *saved*) ;;
*) why="it is the newest in /boot, as GRUB's entry $entry names no kernel" ;;
esac
for r in $list; do
    case $entry in *"$r"*) n=$r why="GRUB's entry names it" ;; esac
done
module() {
    f=$(modinfo -k "$1" -F filename nvidia 2>/dev/null)
    # Debian names its file nvidia-current.ko; the alias that leads there is modprobe's business.
    [ -n "$f" ] || f=$(modprobe -S "$1" -n -q --show-depends nvidia 2>/dev/null |
        sed -n 's/^insmod \([^ ]*\).*/\1/p' | tail -n 1)
    h=no; [ -d "/lib/modules/$1/build/" ] && h=yes
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$2" "$1" "$h" "${f:+$(modinfo -F version "$f" 2>/dev/null)}" \
        "${f:+$(modinfo -F license "$f" 2>/dev/null)}" "${f:+$(modinfo -F signer "$f" 2>/dev/null)}"
}
command -v modinfo >/dev/null 2>&1 || unknown 'modinfo is not there (package kmod)'
module "$k" running
[ -z "$n" ] || { module "$n" next; printf 'why %s\n' "$why"; }
"""

    def parse(self, output: Output) -> Kernels:
        kernels: dict[str, Kernel] = {}
        texts: dict[str, str] = {}
        for line in output.text.splitlines():
            columns = line.split("\t")
            if len(columns) == 6:
                which, release, headers, version, license_, signer = columns
                flavour = "" if not license_ else "proprietary" if license_ == "NVIDIA" else "open"
                kernels[which] = Kernel(release, headers == "yes", version, flavour, signer)
            else:
                word, _, rest = line.partition(" ")
                texts[word] = rest
        return Kernels(
            running=kernels["running"],
            next=kernels.get("next"),
            why_next=texts.get("why", ""),
            command_line=texts.get("cmdline", ""),
        )


@dataclass(frozen=True, slots=True)
class SecureBoot:
    """`enforced`: the firmware checks signatures and the kernel takes it seriously. `efi`: the machine booted by
    EFI. `lockdown` is the kernel's state ("none", "integrity", "confidentiality", "" when it has no such thing);
    `signed_only`: the kernel loads signed modules only, whatever the reason."""

    enforced: bool
    efi: bool
    lockdown: str = ""
    signed_only: bool = False


@dataclass(frozen=True)
class SecureBootProbe(Probe[SecureBoot]):
    """Secure Boot from the EFI variables, as Linux itself decides (drivers/firmware/efi/libstub/secureboot.c): the
    variable SecureBoot is 1, SetupMode isn't, and shim's MokSBStateRT doesn't switch validation off; `mokutil`
    where the variables can't be read. Unknown when neither answers on a machine with EFI."""

    @property
    def key(self) -> str:
        return "Secure Boot"

    def script(self) -> str:
        return r"""
l=; [ -r /sys/kernel/security/lockdown ] && l=$(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/security/lockdown)
s=N; [ -r /sys/module/module/parameters/sig_enforce ] && read -r s </sys/module/module/parameters/sig_enforce
tell() { printf '%s %s %s %s\n' "$1" "$2" "${l:--}" "$s"; exit 0; }
[ -d /sys/firmware/efi ] || tell no bios
v=/sys/firmware/efi/efivars g=8be4df61-93ca-11d2-aa0d-00e098032b8c
byte() { od -An -tu1 -j4 -N1 "$1" 2>/dev/null | tr -d ' '; }
b=$(byte "$v/SecureBoot-$g")
if [ -n "$b" ]; then
    [ "$b" = 1 ] && [ "$(byte "$v/SetupMode-$g")" != 1 ] \
        && [ "$(byte "$v/MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23")" != 1 ] && tell yes efi
    tell no efi
fi
if [ -e "$v/SetupMode-$g" ] || ls "$v"/Boot* >/dev/null 2>&1; then tell no efi; fi
m=$(bounded 10 mokutil --sb-state 2>&1)
case $m in
*'validation is disabled'* | *'SecureBoot disabled'* | *'Setup Mode'*) tell no efi ;;
*'SecureBoot enabled'*) tell yes efi ;;
*"doesn't support Secure Boot"*) tell no efi ;;
esac
unknown 'the EFI variables cannot be read, and mokutil does not say whether Secure Boot is on'
"""

    def parse(self, output: Output) -> SecureBoot:
        enforced, firmware, lockdown, signed = output.text.split()
        return SecureBoot(
            enforced=enforced == "yes",
            efi=firmware == "efi",
            lockdown="" if lockdown == "-" else lockdown,
            signed_only=signed == "Y" or lockdown in ("integrity", "confidentiality"),
        )


@dataclass(frozen=True, slots=True)
class Signers:
    """`accepted`: names of the certificates whose signatures the kernel accepts, from its keyrings and from the
    enrolled machine owner keys. `dkms_key`: the certificate that dkms signs with, "" without one; `dkms_enrolled`
    whether that is enrolled, None when mokutil doesn't say."""

    accepted: tuple[str, ...] = ()
    dkms_key: str = ""
    dkms_enrolled: bool | None = None

    def accepts(self, signer: str) -> bool:
        """Is that signer (as `modinfo -F signer` names it) among them? The kernel writes "ORGANISATION: NAME"."""
        return bool(signer) and any(name == signer or name.endswith(f": {signer}") for name in self.accepted)


@dataclass(frozen=True)
class SignersProbe(Probe[Signers]):
    """Certificates in /proc/keys and of `mokutil --list-enrolled`; the key dkms signs with: what its configuration
    names, else /var/lib/shim-signed/mok/MOK.der (Ubuntu) or /var/lib/dkms/mok.pub (dkms's own default)."""

    @property
    def key(self) -> str:
        return "accepted module signers"

    def script(self) -> str:
        return r"""
[ -r /proc/keys ] || command -v mokutil >/dev/null 2>&1 \
    || unknown 'neither /proc/keys nor mokutil tells which keys the kernel accepts'
[ -r /proc/keys ] && sed -n 's/.* asymmetri \(.*\): [0-9a-f]*: X509\..*/name \1/p' /proc/keys
command -v mokutil >/dev/null 2>&1 \
    && bounded 10 mokutil --list-enrolled 2>/dev/null | sed -n 's/^ *Subject:.*CN *= *\([^,\/]*\).*/name \1/p'
c=$(cat /etc/dkms/framework.conf /etc/dkms/framework.conf.d/*.conf 2>/dev/null \
    | sed -n 's/^ *mok_certificate=["'\'']*\([^"'\'']*\).*/\1/p' | tail -n 1)
for f in "$c" /var/lib/shim-signed/mok/MOK.der /var/lib/dkms/mok.pub; do
    [ -n "$f" ] && [ -e "$f" ] || continue
    t=$(bounded 10 mokutil --test-key "$f" 2>&1)
    case $t in
    *'already enrolled'*) e=yes ;;
    *'not enrolled'*) e=no ;;
    *) e=unknown ;;
    esac
    printf 'dkms %s %s\n' "$e" "$f"
    break
done
exit 0
"""

    def parse(self, output: Output) -> Signers:
        names: dict[str, None] = {}
        key, enrolled = "", None
        for line in output.text.splitlines():
            word, _, rest = line.partition(" ")
            if word == "name":
                names[rest.strip()] = None
            elif word == "dkms":
                said, _, key = rest.partition(" ")
                enrolled = {"yes": True, "no": False}.get(said)
        return Signers(tuple(names), key, enrolled)
