import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import type { Env } from "../../src/config.ts";
import { hasPebble, startPebble } from "../support/domains/pebble.ts";
import { madeForEach, skipUnless } from "../support/made.ts";
import { doctorReport } from "../support/processes/command.ts";
import { freePort, temporaryDir } from "../support/processes/process.ts";
import { sharedFakeStripe, stripeSettings } from "../support/providers/fake-stripe.ts";
import { selfSigned } from "../support/webhooks/receiver.ts";
import { pluck } from "../support/pluck.ts";

describe("laurel doctor, of what a server may use", () => {
  const directory = madeForEach(temporaryDir);
  afterEach(() => directory.remove());
  const examine = async (more: Env) =>
    doctorReport({ PORT: String(await freePort()), DATA_DIR: directory.path, ...more });

  describe("to sell plans", () => {
    const check = async (more: Env = {}) => {
      const settings = stripeSettings((await sharedFakeStripe()).url);
      const { code, report } = await examine({ ...settings, ...more });
      return { code, checks: report.checks.filter(({ name }) => name === "Stripe") };
    };

    it("finds prices that are as they are said to be", async () => {
      const { code, checks } = await check();
      assert.deepEqual([code, checks.map(({ status }) => status)], [0, ["ok"]]);
    });

    it("names each price that cannot be sold, and why", async () => {
      const prices = "STARTER_MONTHLY=price_starter_m,PRO_MONTHLY=price_pro_y,PRO_YEARLY=price_gone";
      const { code, checks } = await check({ STRIPE_PRICES: prices });
      assert.equal(code, 1);
      assert.deepEqual(pluck(checks, "message"), [
        "PRO_MONTHLY=price_pro_y is not paid monthly",
        "PRO_YEARLY=price_gone is not known to the account and mode of the key",
      ]);
    });

    it("says that the key is refused, without the key", async () => {
      const { code, checks } = await check({ STRIPE_SECRET_KEY: "sk_test_another_that_is_wrong" });
      assert.deepEqual([code, checks.length], [1, 1]);
      assert.match(checks[0]!.message, /Invalid API Key/);
      assert.doesNotMatch(JSON.stringify(checks), /that_is_wrong/);
    });
  });

  describe("to serve custom domains", () => {
    const acme = (more: Env): Env => ({
      SSL_MODE: "acme",
      CUSTOM_DOMAIN_SUFFIX: "edge.example.com",
      TLS_PORT: "0",
      ACME_DIRECTORY_URL: "https://127.0.0.1:1/dir",
      ...more,
    });

    it("asks the authority for its directory", async function () {
      skipUnless(hasPebble(), this, "certificates are ordered from Pebble: apt install pebble");
      const pebble = await startPebble({ httpPort: 1, dns: "127.0.0.1:1" });
      try {
        const { directoryUrl: ACME_DIRECTORY_URL, caFile: ACME_CA_FILE } = pebble;
        const good = await examine(acme({ ACME_DIRECTORY_URL, ACME_CA_FILE }));
        assert.equal(good.find("Certificates").status, "ok", good.find("Certificates").message);
        const untrusted = await examine(acme({ ACME_DIRECTORY_URL }));
        assert.match(untrusted.find("Certificates").message, /self-signed certificate/);
        const elsewhere = ACME_DIRECTORY_URL.replace("/dir", "/elsewhere");
        const wrong = await examine(acme({ ACME_DIRECTORY_URL: elsewhere, ACME_CA_FILE }));
        assert.match(wrong.find("Certificates").message, /it answers 404/);
      } finally {
        await pebble.stop();
      }
    });

    it("finds a file of authorities that is not there, or is none", async () => {
      const file = join(directory.path, "ca.pem");
      const of = async () => (await examine(acme({ ACME_CA_FILE: file }))).find("Certificates").message;
      assert.match(await of(), /ca\.pem cannot be used: ENOENT/);
      writeFileSync(file, "nothing");
      assert.match(await of(), /it has no certificate/);
      const { cert } = selfSigned({ names: ["localhost"] });
      writeFileSync(file, cert);
      assert.match(await of(), /127\.0\.0\.1:1\/dir cannot be used: .*ECONNREFUSED/);
    });

    it("does not wait for an authority that takes the connection and is silent", async () => {
      const silent = createServer().listen(0, "127.0.0.1");
      await once(silent, "listening");
      const { port } = silent.address() as { port: number };
      try {
        const found = await examine(acme({ ACME_DIRECTORY_URL: `https://127.0.0.1:${port}/dir` }));
        assert.match(found.find("Certificates").message, /cannot be used: no answer within 8000 ms/);
      } finally {
        silent.close();
      }
    });

    it("finds a port for TLS that another program has, or the server itself", async () => {
      const other = createServer().listen(0, "127.0.0.1");
      await once(other, "listening");
      const { port } = other.address() as { port: number };
      const taken = await examine(acme({ TLS_PORT: String(port) }));
      assert.match(taken.find(`TLS port ${port}`).message, /another program has it/);
      other.close();
      const same = await examine(acme({ PORT: "2568", TLS_PORT: "2568" }));
      assert.equal(same.code, 1);
      assert.match(same.find("Settings").message, /^TLS_PORT must be another port than PORT/);
    });
  });
});
