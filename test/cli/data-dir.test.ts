import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { lockDataDir } from "../../src/platform/data-lock.ts";
import { freePort, kill, laurel, startProcess, temporaryDir } from "../support/process.ts";

describe("the data directory of embedded mode", function () {
  this.timeout(60_000);
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  beforeEach(async () => {
    dir = await temporaryDir();
  });
  afterEach(() => dir.remove());

  it("belongs to one process: a second is refused with the first one's pid; a crash frees it", async () => {
    const env = async () => ({
      DATA_DIR: dir.path,
      PORT: String(await freePort()),
      DEMO: "off",
      LOG_LEVEL: "error",
    });
    const first = await startProcess(["serve"], await env());
    const second = laurel(["serve"], await env());
    assert.equal(await second.ended, 1);
    assert.match(second.output(), new RegExp(`in use by process ${first.child.pid}`));
    await kill(first);
    const third = await startProcess(["serve"], await env());
    third.child.kill("SIGTERM");
    assert.equal(await third.ended, 0, third.output());
  });

  it("is taken by exactly one of many that try at once, also over the lock of a dead process", async () => {
    for (const stale of [undefined, '{"pid":999999,"startedAt":"1"}', "{"]) {
      if (stale !== undefined) await writeFile(join(dir.path, "laurel.lock"), stale);
      const tries = await Promise.allSettled(Array.from({ length: 8 }, () => lockDataDir(dir.path)));
      const taken = tries.filter((result) => result.status === "fulfilled");
      assert.equal(taken.length, 1, `over ${stale}`);
      await taken[0]!.value();
    }
  });
});
