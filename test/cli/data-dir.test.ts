import assert from "node:assert/strict";
import { chmod, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findDataDirHolder, lockDataDir } from "../../src/platform/data-lock.ts";
import { readSecrets } from "../../src/secrets.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import {
  fillDataDir,
  freePort,
  kill,
  laurel,
  startProcess,
  temporaryDir,
} from "../support/processes/process.ts";

describe("the data directory of embedded mode", function () {
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  beforeEach(async () => {
    dir = await temporaryDir();
  });
  afterEach(() => dir.remove());

  const settings = async () => ({
    DATA_DIR: dir.path,
    PORT: String(await freePort()),
    DEMO: "off",
    LOG_LEVEL: "error",
  });
  const lockFile = (): string => join(dir.path, "laurel.lock");

  it("belongs to one process: a second is refused with the first one's pid; a crash frees it", async () => {
    const first = await startProcess(["serve"], await settings());
    const second = laurel(["serve"], await settings());
    assert.equal(await second.ended, 1);
    assert.match(second.output(), new RegExp(`in use by process ${first.child.pid}`));
    await kill(first);
    const third = await startProcess(["serve"], await settings());
    third.child.kill("SIGTERM");
    assert.equal(await third.ended, 0, third.output());
  });

  it("stays with a process that stands still, as one does whose statement takes long", async () => {
    await fillDataDir(dir.path);
    const first = await startProcess(["serve"], await settings());
    first.child.kill("SIGSTOP");
    try {
      const second = laurel(["serve"], await settings());
      assert.equal(await second.ended, 1, second.output());
      assert.match(second.output(), new RegExp(`in use by process ${first.child.pid}`));
    } finally {
      first.child.kill("SIGCONT");
    }
    first.child.kill("SIGTERM");
    assert.equal(await first.ended, 0, first.output());
  });

  it("belongs to a process that nobody else can see, such as one of another container", async () => {
    await fillDataDir(dir.path);
    const first = await startProcess(["serve"], await settings());
    await writeFile(join(dir.path, "laurel.pid"), "999999 web-1\n");
    const second = laurel(["serve"], await settings());
    assert.equal(await second.ended, 1);
    assert.match(second.output(), /is in use by process 999999 of web-1; stop it or set DATA_DIR/);
    await kill(first);
  });

  it("stays with the process whose lock file is deleted or damaged, which puts the file back", async () => {
    await fillDataDir(dir.path);
    const first = await startProcess(["serve"], await settings());
    const damages = [
      () => rm(lockFile()),
      () => writeFile(lockFile(), ""),
      () => writeFile(lockFile(), "{}"),
    ];
    for (const damage of damages) {
      await damage();
      const second = laurel(["serve"], await settings());
      assert.equal(await second.ended, 1, second.output());
      assert.match(second.output(), /is in use by/);
      await eventuallyHolds(async () => assert.equal(await findDataDirHolder(dir.path), first.child.pid));
    }
    first.child.kill("SIGTERM");
    assert.equal(await first.ended, 0, first.output());
    assert.equal(await findDataDirHolder(dir.path), undefined);
  });

  it("ends the server when it is deleted or moved", async () => {
    await fillDataDir(dir.path);
    const server = await startProcess(["serve"], await settings());
    // The server may write into it meanwhile.
    await rm(dir.path, { recursive: true, maxRetries: 10 });
    await server.ended;
    assert.match(server.output(), /was deleted or moved: stopping/);
  });

  it("is named with what is wrong when it cannot be written to", async function () {
    const notADirectory = join(dir.path, "file");
    await writeFile(notADirectory, "");
    await assert.rejects(lockDataDir(notADirectory), /cannot be used \(EEXIST.*DATA_DIR/);
    await assert.rejects(readSecrets(notADirectory), /cannot be used \(ENOTDIR.*DATA_DIR/);
    const started = laurel(["serve"], { ...(await settings()), DATA_DIR: notADirectory });
    assert.equal(await started.ended, 1);
    assert.match(started.output(), /the data directory .* cannot be used \(ENOTDIR.*set DATA_DIR/);
    // Root may write anywhere, so the rights are those of somebody else.
    if (process.geteuid!() !== 0) this.skip();
    await chmod(dir.path, 0o555);
    process.seteuid!(65_534);
    try {
      const refusal = /the data directory .* cannot be used \(EACCES: permission denied.*DATA_DIR/;
      await assert.rejects(lockDataDir(dir.path), refusal);
      await assert.rejects(readSecrets(dir.path), refusal);
      await assert.rejects(readSecrets(join(dir.path, "below")), refusal);
    } finally {
      process.seteuid!(0);
    }
  });

  it("is taken by exactly one of many that try at once, whatever its lock file says", async () => {
    for (const text of [undefined, '{"pid":999999,"startedAt":"1"}', "{", "", "null"]) {
      if (text !== undefined) await writeFile(lockFile(), text);
      const tries = await Promise.allSettled(Array.from({ length: 8 }, () => lockDataDir(dir.path)));
      const taken = tries.filter((result) => result.status === "fulfilled");
      assert.equal(taken.length, 1, `over ${text}`);
      await taken[0]!.value();
    }
  });
});
