import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { Writable } from "node:stream";
import { doctorCommand } from "../../src/cli/doctor.ts";
import type { Check } from "../../src/cli/doctor-checks.ts";
import { type Env, readConfig } from "../../src/config.ts";
import { lockDataDir } from "../../src/platform/data-lock.ts";
import { startApp } from "../support/app/app.ts";
import { freePort, temporaryDir } from "../support/processes/process.ts";

type Report = { ok: boolean; failed: number; warned: number; checks: Check[] };

const run = async (env: Env, flags: { json?: boolean } = {}): Promise<{ code: number; text: string }> => {
  const parts: string[] = [];
  const out = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      parts.push(chunk.toString());
      done();
    },
  });
  const code = await doctorCommand(flags, out, () => readConfig(env));
  return { code, text: parts.join("") };
};

const report = async (env: Env): Promise<{ code: number; find: (name: string) => Check; report: Report }> => {
  const { code, text } = await run(env, { json: true });
  const parsed = JSON.parse(text) as Report;
  const find = (name: string) => {
    const check = parsed.checks.find((one) => one.name === name);
    return check ?? assert.fail(`no check of ${name} in ${text}`);
  };
  return { code, find, report: parsed };
};

describe("laurel doctor", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let port: string;
  beforeEach(async () => {
    directory = await temporaryDir();
    port = String(await freePort());
  });
  afterEach(() => directory.remove());

  it("answers 0 and says so when all is well", async () => {
    const { code, text } = await run({ PORT: port, DATA_DIR: join(directory.path, "new") });
    assert.equal(code, 0, text);
    assert.match(text, /^\[ok\] +Node\.js/m);
    assert.match(text, /will be made at the first start/);
    assert.doesNotMatch(text, /\[fail\]/);
  });

  it("names every bad setting at once", async () => {
    const { code, text } = await run({ PORT: "x", MODE: "cluster", REDIS_URL: "http://x" });
    assert.equal(code, 1);
    for (const name of ["PORT", "DATABASE_URL", "REDIS_URL"]) assert.match(text, new RegExp(`fail.*${name}`));
  });

  it("gives each warning and failure something to do", async () => {
    const unreachable = `127.0.0.1:${await freePort()}`;
    const {
      code,
      find,
      report: all,
    } = await report({
      MODE: "cluster",
      PORT: port,
      DATABASE_URL: `postgres://nobody:secret-word@${unreachable}/none`,
      REDIS_URL: `redis://:secret-word@${unreachable}`,
      DATA_DIR: directory.path,
    });
    assert.equal(code, 1);
    assert.match(find("PostgreSQL").message, /ECONNREFUSED/);
    assert.match(find("Redis").message, /ECONNREFUSED/);
    for (const check of all.checks)
      assert.equal(check.remedy === undefined, check.status === "ok", check.name);
    assert.doesNotMatch(JSON.stringify(all), /secret-word/);
    assert.equal(all.ok, false);
  });

  it("tells a port that Laurel has from one that something else has", async () => {
    const api = await startApp();
    const own = await report({ PORT: String(api.port), DATA_DIR: directory.path });
    assert.equal(own.code, 0);
    assert.match(own.find(`Port ${api.port}`).message, /Laurel.* is running there/);

    const other = createServer((socket) => socket.end("220 hello\r\n")).listen(Number(port), "127.0.0.1");
    await once(other, "listening");
    try {
      const { code, find } = await report({ PORT: port, DATA_DIR: directory.path });
      assert.equal(code, 1);
      assert.match(find(`Port ${port}`).message, /taken by another program/);
    } finally {
      other.close();
    }
  });

  it("names the process that holds the data directory", async () => {
    const unlock = await lockDataDir(directory.path);
    try {
      const { find } = await report({ PORT: port, DATA_DIR: directory.path });
      assert.match(find("Data directory").message, new RegExp(`in use by process ${process.pid}$`));
    } finally {
      await unlock();
    }
  });

  it("fails when the data directory cannot be one", async () => {
    const file = join(directory.path, "file");
    writeFileSync(file, "");
    const { code, find } = await report({ PORT: port, DATA_DIR: join(file, "data") });
    assert.equal(code, 1);
    assert.equal(find("Data directory").status, "fail");
  });

  it("warns of a public address that clients cannot use", async () => {
    const base = { PORT: port, DATA_DIR: directory.path };
    const cases: [Env, RegExp][] = [
      [{ HOST: "0.0.0.0" }, /accepts other machines/],
      [{ PUBLIC_URL: "https://games.example/laurel" }, /has a path/],
      [{ PUBLIC_URL: "http://games.example" }, /not encrypted/],
    ];
    for (const [env, message] of cases) {
      const { code, find } = await report({ ...base, ...env });
      assert.equal(code, 0);
      assert.equal(find("PUBLIC_URL").status, "warn");
      assert.match(find("PUBLIC_URL").message, message);
    }
    const good = await report({ ...base, PUBLIC_URL: "https://games.example" });
    assert.equal(good.find("PUBLIC_URL").status, "ok");
  });
});
