import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant, startApp } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import { runSteps, stepsOf } from "../support/documents/documents.ts";
import { aName } from "../support/domains/server.ts";
import { sharedTxtServer } from "../support/sso/txt-server.ts";
import { skipWithout } from "../support/made.ts";

const DOMAINS = "docs/guides/domains.md";

describe("the commands of the guide to custom domains", function () {
  before(function () {
    skipWithout(this, "bash", "curl");
  });

  it("lead from a name to an active domain, and remove it", async () => {
    const api = await startApp();
    const dns = await sharedTxtServer();
    const tenant = await aTenant(api);
    assert.ok(stepsOf(DOMAINS).length >= 3);
    const domain = aName();
    // The reader makes the records as soon as they are shown.
    const timer = setInterval(() => {
      void api.app.transact(async ({ db }) => {
        const { rows } = await sql<{ token: string; label: string }>`
          select token, label from custom_domains where domain = ${domain}`.execute(db);
        for (const { token, label } of rows) {
          dns.records.set(`_laurel-challenge.${domain}`, [[`laurel-custom-domain=${token}`]]);
          dns.records.set(`CNAME ${domain}`, [[`${label}.edge.laurel-tests.com`]]);
        }
      });
    }, 100);
    try {
      const { DOMAIN_ID: id = "" } = await runSteps(DOMAINS, {
        PATH: process.env["PATH"],
        HOME: process.env["HOME"],
        URL: api.url,
        TOKEN: tenant.token,
        DOMAIN: domain,
      });
      const acts = (await auditOf(api, id)).map(({ action }) => action);
      for (const act of ["added", "recheck_requested", "active", "removed"])
        assert(acts.includes(`custom_domain.${act}`), acts.join());
    } finally {
      clearInterval(timer);
    }
  });
});
