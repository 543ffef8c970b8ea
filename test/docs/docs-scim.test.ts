import assert from "node:assert/strict";
import { aTenant } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { runSteps, stepsOf } from "../support/documents/documents.ts";
import { aVerifiedDomain, ssoServer } from "../support/sso/server.ts";
import { skipWithout } from "../support/made.ts";

const SCIM = "docs/guides/scim.md";

describe("the commands of the guide to SCIM", function () {
  before(function () {
    skipWithout(this, "bash", "curl");
  });
  const { server } = ssoServer();

  it("lead a person from their first day to their last", async () => {
    assert.ok(stepsOf(SCIM).length > 5);
    const tenant = await aTenant(server);
    const environment = {
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      URL: server.url,
      TOKEN: tenant.token,
      DOMAIN: await aVerifiedDomain(server, tenant),
    };
    await runSteps(SCIM, environment);
    const { data } = must(await server.get("/api/v1/audit-log?limit=50", { token: tenant.token }), 200);
    const actions = data.map(({ action }: { action: string }) => action);
    assert.ok(actions.includes("member.provisioned") && actions.includes("member.removed"));
  });
});
