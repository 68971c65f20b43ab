"""How packages, repositories, pins and versions look in apt and dnf: the seam behind the package tasks. Pure."""
