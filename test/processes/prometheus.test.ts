import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { copyFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { eventuallyHolds } from "../support/eventually.ts";
import { skipUnless } from "../support/made.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";
import { type Services, startServices } from "../support/processes/services.ts";

const EXAMPLES = "docs/examples";
const PORTS = ["9464", "9465", "9564"];
const CALM = { timeoutMs: 60_000 };

type Sample = { metric: Record<string, string>; value: [number, string] };
type Rule = { name: string; health: string; lastError?: string };

describe("Prometheus with the documented configuration", function () {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  const processes: Laurel[] = [];

  before(async function () {
    const { error } = spawnSync("prometheus", ["--version"]);
    skipUnless(!error, this, "the test of the documented configuration needs prometheus");
    directory = await temporaryDir();
    services = await startServices(directory.path);
  });
  after(async () => {
    for (const one of processes) await kill(one);
    await services?.remove();
    await directory?.remove();
  });

  it("reads every process on its own port, a worker too, and takes all alarms", async () => {
    const [one, two, third, own] = [await freePort(), await freePort(), await freePort(), await freePort()];
    const env = { ...services.env, PORT: "0" };
    const web = { ...env, ROLES: "web" };
    processes.push(await startProcess(["serve"], { ...web, METRICS_PORT: String(one) }));
    processes.push(await startProcess(["serve"], { ...web, METRICS_PORT: String(two) }));
    const worker = await startProcess(["worker"], { ...env, ROLES: "worker", METRICS_PORT: String(third) });
    processes.push(worker);
    assert.match(worker.output(), new RegExp(`"operate":"http://localhost:${third}"`));

    const text = await readFile(join(EXAMPLES, "prometheus.yml"), "utf8");
    const here = [one, two, third].reduce(
      (config, port, index) => config.replace(`:${PORTS[index]}"`, `:${port}"`),
      text.replace("scrape_interval: 15s", "scrape_interval: 1s\n  evaluation_interval: 1s"),
    );
    await writeFile(join(directory.path, "prometheus.yml"), here);
    await copyFile(join(EXAMPLES, "laurel-alerts.yml"), join(directory.path, "laurel-alerts.yml"));
    const prometheus = spawn(
      "prometheus",
      [
        `--config.file=${join(directory.path, "prometheus.yml")}`,
        `--storage.tsdb.path=${join(directory.path, "tsdb")}`,
        `--web.listen-address=127.0.0.1:${own}`,
      ],
      { stdio: "ignore" },
    );
    const get = async (path: string) => (await fetch(`http://127.0.0.1:${own}/api/v1/${path}`)).json();
    const query = async (expression: string): Promise<Sample[]> => {
      const { data } = (await get(`query?query=${encodeURIComponent(expression)}`)) as {
        data: { result: Sample[] };
      };
      return data.result;
    };
    for (const port of [one, third]) {
      const input = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      const { status, stderr } = spawnSync("promtool", ["check", "metrics"], { input, encoding: "utf8" });
      assert.equal(status, 0, stderr);
    }
    try {
      await eventuallyHolds(async () => {
        assert.deepEqual(
          (await query("up")).map(({ value }) => value[1]),
          ["1", "1", "1"],
        );
        const roles = (await query("laurel_build_info")).map(({ metric }) => metric["roles"]);
        assert.deepEqual(roles.toSorted(), ["web", "web", "worker"]);
        const [lag] = await query("max(laurel_event_lag_seconds)");
        assert.equal(lag!.value[1], "0");
        const open = await query('laurel_database_connections{state="max"}');
        assert.equal(open.length, 3);
        const { data } = (await get("rules")) as { data: { groups: { rules: Rule[] }[] } };
        const rules = data.groups.flatMap((group) => group.rules);
        assert.ok(rules.length > 5);
        assert.deepEqual(
          rules.filter(({ health }) => health !== "ok"),
          [],
        );
      }, CALM);
    } finally {
      prometheus.kill("SIGTERM");
      await once(prometheus, "exit");
    }
  });
});
