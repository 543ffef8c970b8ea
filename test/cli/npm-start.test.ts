import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { findDataDirHolder } from "../../src/platform/data-lock.ts";
import { isRunning } from "../support/documents/commands.ts";
import { root } from "../support/documents/documents.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { fillDataDir, migratedDataDir } from "../support/processes/data-dir.ts";
import { freePort, temporaryDir } from "../support/processes/process.ts";

describe("a server and the process that has started it", () => {
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  /** Servers that a failed test would leave behind. */
  const servers: number[] = [];
  beforeEach(async () => {
    dir = await temporaryDir();
  });
  afterEach(async () => {
    for (const pid of servers.splice(0)) if (isRunning(pid)) process.kill(pid, "SIGKILL");
    await dir.remove();
  });

  const run = async (command: string, args: string[]): Promise<ChildProcess & { output: () => string }> => {
    const { PATH, HOME } = process.env;
    const settings = { DATA_DIR: dir.path, PORT: String(await freePort()), DEMO: "off", LOG_LEVEL: "info" };
    const child = spawn(command, args, {
      cwd: root,
      env: { PATH, HOME, ...settings },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let text = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => (text += chunk.toString()));
    return Object.assign(child, { output: () => text });
  };

  /** Waits until the server of `child` is ready. @returns its pid */
  const ready = async (child: { output: () => string }): Promise<number> => {
    const label = "the server is ready";
    await eventually(() => child.output().includes(" is ready "), { timeoutMs: 60_000, label });
    const pid = (await findDataDirHolder(dir.path))!;
    servers.push(pid);
    return pid;
  };

  const ends = (pid: number, signal: string): Promise<void> =>
    eventuallyHolds(() => assert.ok(!isRunning(pid), `the server is running after ${signal}`), {
      timeoutMs: 60_000,
    });

  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    it(`npm start: ${signal} to npm ends the server in order and frees the data directory`, async () => {
      if (signal !== "SIGTERM") await fillDataDir(dir.path);
      const npm = await run("npm", ["start"]);
      const ended = once(npm, "close");
      const pid = await ready(npm);
      npm.kill(signal);
      await ends(pid, signal);
      await ended;
      assert.match(npm.output(), /"msg":"stopping"/);
      assert.ok(!npm.output().includes("stopping failed"), npm.output());
      assert.equal(await findDataDirHolder(dir.path), undefined);
      if (signal === "SIGTERM") assert.equal(npm.exitCode, 0);
    });
  }

  it("goes on without its parent when it was put into the background, and ends with laurel", async () => {
    await fillDataDir(dir.path);
    const shell = await run("sh", ["-c", `"${process.execPath}" src/main.ts serve & wait`]);
    const pid = await ready(shell);
    shell.kill("SIGKILL");
    await once(shell, "exit");

    const other = dir;
    dir = await migratedDataDir();
    const laurel = await run(process.execPath, ["bin/laurel.mjs", "serve"]);
    const server = await ready(laurel);
    laurel.kill("SIGKILL");
    await ends(server, "SIGKILL to laurel");
    assert.ok(isRunning(pid), shell.output());
    assert.equal(await findDataDirHolder(other.path), pid);
    process.kill(pid, "SIGTERM");
    await ends(pid, "SIGTERM");
    await other.remove();
  });
});
