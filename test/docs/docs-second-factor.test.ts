import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { anAdmin } from "../support/app/admin.ts";
import { runSteps, stepsOf } from "../support/documents/documents.ts";
import { madeOnce, skipWithout } from "../support/made.ts";

const SECOND_FACTOR = "docs/guides/second-factor.md";

describe("the commands of the guide to a second factor", function () {
  before(function () {
    skipWithout(this, "bash", "curl");
  });
  const api = madeOnce(startApp);

  it("lead from a secret to a tenant that requires one, and a super-admin to the first login", async () => {
    assert.ok(stepsOf(SECOND_FACTOR).length > 6);
    const { email: ADMIN_EMAIL, password: ADMIN_PASSWORD } = await anAdmin(api);
    const { PATH, HOME } = process.env;
    const environment = { PATH, HOME, URL: api.url, ADMIN_EMAIL, ADMIN_PASSWORD };
    const { TOKEN = "" } = await runSteps(SECOND_FACTOR, environment);
    const { body } = await api.get("/api/v1/auth/mfa", { token: TOKEN });
    assert.deepEqual([body.enabled, body.required, body.recoveryCodesLeft], [true, true, 9]);
  });
});
