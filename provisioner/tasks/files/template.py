"""Task `template`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from provisioner.facts.files import FileProbe
from provisioner.model.change import Finding
from provisioner.model.fact import Facts, Probe
from provisioner.tasks.context import Context
from provisioner.tasks.files.attributes import PathTask
from provisioner.tasks.files.content import content_change
from provisioner.tasks.task import task


@task("template")
class Template(PathTask):
    """A file rendered from a Jinja2 template.

    `source` is looked for in `templates/` beside the playbook first, then among the shipped ones. The template
    sees all variables of the host (`{{ host.name }}`, `{{ versions.driver }}`) and, by their own names, those of
    the table `values`. Mode, owner, links: as in `file`.

        [[stages.tasks]]
        task = "template"
        source = "chrony.conf.j2"
        path = "/etc/chrony/chrony.conf"
        mode = "0644"
        values = { servers = ["ntp1.example.net", "ntp2.example.net"] }
    """

    source: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def probes(self, ctx: Context) -> Iterable[Probe[Any]]:
        yield FileProbe(self.path)

    def plan(self, facts: Facts, ctx: Context) -> Iterator[Finding]:
        want = ctx.template(self.source, **self.values)
        yield from content_change(self.path, facts.get(FileProbe(self.path)), want, self.attributes)
