import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { StoreError } from "../../src/domain/analytics/warehouse/store.ts";
import { createDirectoryStore } from "../../src/platform/warehouse/directory.ts";
import { skipUnless } from "../support/made.ts";
import { freePort, laurel, temporaryDir } from "../support/processes/process.ts";
import { filesIn } from "../support/warehouse/stage.ts";

const STORE = new URL("../../src/platform/warehouse/directory.ts", import.meta.url).href;

const run = (command: string, ...args: string[]): boolean => spawnSync(command, args).status === 0;

describe("the directory of a warehouse", function () {
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  beforeEach(async () => {
    dir = await temporaryDir();
  });
  afterEach(() => dir.remove());

  it("that is full says so, keeps no half file, and works again when there is space", async function () {
    const small = join(dir.path, "small");
    mkdirSync(small);
    const isMounted = run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", small);
    skipUnless(isMounted, this, "a full disk is a tmpfs, which only root can mount");
    try {
      const store = createDirectoryStore(small);
      await store.put("a/one", randomBytes(100_000));
      await assert.rejects(store.put("a/two", randomBytes(300_000)), (error: unknown) => {
        assert.ok(error instanceof StoreError);
        assert.match(error.message, /small \(WAREHOUSE_URL\) fails: no space is left$/);
        return true;
      });
      assert.deepEqual([...filesIn(small).keys()], ["a/one"]);
      await store.remove("a/one");
      await store.put("a/two", randomBytes(150_000));
      assert.equal(await store.size("a/two"), 150_000);
    } finally {
      run("umount", small);
    }
  });

  it("that cannot be written ends a worker's start, and laurel doctor says why", async () => {
    const file = join(dir.path, "warehouse");
    await createDirectoryStore(dir.path).put("warehouse", Buffer.from("a file"));
    const env = {
      DATA_DIR: join(dir.path, "data"),
      PORT: String(await freePort()),
      DEMO: "off",
      WAREHOUSE_URL: `file://${file}`,
    };
    const doctor = laurel(["doctor"], env);
    assert.equal(await doctor.ended, 1);
    assert.match(doctor.output(), /\[fail\] +Warehouse .*it is not a directory/);
    const server = laurel(["serve"], env);
    assert.notEqual(await server.ended, 0);
    assert.match(server.output(), /warehouse \(WAREHOUSE_URL\) fails: it is not a directory/);
    assert.doesNotMatch(server.output(), /is ready/);
  });

  it("of another user says that this one has no rights to it", async function () {
    skipUnless(process.getuid?.() === 0, this, "only root can become another user");
    const root = join(dir.path, "warehouse");
    mkdirSync(root, { mode: 0o700 });
    chmodSync(dir.path, 0o755);
    const script = `
      const { createDirectoryStore } = await import(${JSON.stringify(STORE)});
      const store = createDirectoryStore(${JSON.stringify(root)});
      await store.check().catch((error) => console.log(error.message));`;
    const asNobody = (text: string): string =>
      spawnSync(process.execPath, ["--input-type=module", "-e", text], {
        uid: 65_534,
        gid: 65_534,
        encoding: "utf8",
      }).stdout;
    const canRead = asNobody(`await import(${JSON.stringify(STORE)}); console.log("read");`) === "read\n";
    // A checkout in a private folder: what another user may do cannot be tried from there.
    if (!canRead) this.skip();
    assert.match(asNobody(script), /fails: this user has no rights to it/);
  });
});
