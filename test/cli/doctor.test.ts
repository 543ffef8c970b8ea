import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import type { Env } from "../../src/config.ts";
import { lockDataDir } from "../../src/platform/data-lock.ts";
import { startApp } from "../support/app/app.ts";
import { doctorReport, runDoctor } from "../support/processes/command.ts";
import { freePort, temporaryDir } from "../support/processes/process.ts";

describe("laurel doctor", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let port: string;
  beforeEach(async () => {
    directory = await temporaryDir();
    port = String(await freePort());
  });
  afterEach(() => directory.remove());

  it("answers 0 and says so when all is well", async () => {
    const { code, text } = await runDoctor({ PORT: port, DATA_DIR: join(directory.path, "new") });
    assert.equal(code, 0, text);
    assert.match(text, /^\[ok\] +Node\.js/m);
    assert.match(text, /will be made at the first start/);
    assert.doesNotMatch(text, /\[fail\]/);
  });

  it("names every bad setting at once", async () => {
    const { code, text } = await runDoctor({ PORT: "x", MODE: "cluster", REDIS_URL: "http://x" });
    assert.equal(code, 1);
    for (const name of ["PORT", "DATABASE_URL", "REDIS_URL"]) assert.match(text, new RegExp(`fail.*${name}`));
  });

  it("gives each warning and failure something to do", async () => {
    const unreachable = `127.0.0.1:${await freePort()}`;
    const {
      code,
      find,
      report: all,
    } = await doctorReport({
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
    const own = await doctorReport({ PORT: String(api.port), DATA_DIR: directory.path });
    assert.equal(own.code, 0);
    assert.match(own.find(`Port ${api.port}`).message, /Laurel.* is running there/);

    const other = createServer((socket) => socket.end("220 hello\r\n")).listen(Number(port), "127.0.0.1");
    await once(other, "listening");
    try {
      const { code, find } = await doctorReport({ PORT: port, DATA_DIR: directory.path });
      assert.equal(code, 1);
      assert.match(find(`Port ${port}`).message, /taken by another program/);
    } finally {
      other.close();
    }
  });

  it("names the process that holds the data directory", async () => {
    const unlock = await lockDataDir(directory.path);
    try {
      const { find } = await doctorReport({ PORT: port, DATA_DIR: directory.path });
      assert.match(find("Data directory").message, new RegExp(`in use by process ${process.pid}$`));
    } finally {
      await unlock();
    }
  });

  it("fails when the data directory cannot be one", async () => {
    const file = join(directory.path, "file");
    writeFileSync(file, "");
    const { code, find } = await doctorReport({ PORT: port, DATA_DIR: join(file, "data") });
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
      const { code, find } = await doctorReport({ ...base, ...env });
      assert.equal(code, 0);
      assert.equal(find("PUBLIC_URL").status, "warn");
      assert.match(find("PUBLIC_URL").message, message);
    }
    const good = await doctorReport({ ...base, PUBLIC_URL: "https://games.example" });
    assert.equal(good.find("PUBLIC_URL").status, "ok");
  });
});
