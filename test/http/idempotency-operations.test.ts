import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { takesIdempotencyKey } from "../../src/http/idempotency.ts";
import { routes } from "../../src/http/routes.ts";
import { type Answer, startApp } from "../support/app/app.ts";
import { aSide } from "../support/app/sides.ts";
import { madeOnce } from "../support/made.ts";
import { credentialsFor, operations, send } from "../support/operations/operations.ts";

/** Operations that take no key: who they are for is not known yet, they hand out sessions, or they only read. */
const WITHOUT_KEY = `
  acceptInvitation addPasskey addSuperadminPasskey changePassword completeLogin completeProfile completeSsoSaml
  completeSuperadminLogin createBillingCheckout createBillingPortal createWsToken disableSuperadminTotp
  disableTotp discoverSso enableSuperadminTotp enableTotp exchangeOAuthCode forgotPassword login
  loginWithPasskey logout queryAnalyticsFunnel queryAnalyticsPlayers receiveBillingEvent refreshSession
  register replaceRecoveryCodes replaceSuperadminRecoveryCodes resendVerification resetPassword
  setUpSuperadminTotp setUpTotp startOAuthLink startPasskey startPasskeyLogin startSuperadminPasskey
  superadminChangePassword superadminLogin superadminLogout verifyEmail verifySecondFactor`
  .trim()
  .split(/\s+/);
/** Some whose work is done in different ways: a secret, a draft, a shared transaction, a job, a mail. */
const SOME = ["createApiKey", "createRule", "grantCurrency", "startBulkGrant", "createInvitation"];
const RIVALS = 6;

describe("X-Idempotency-Key", () => {
  const api = madeOnce(startApp);
  const side = madeOnce(() => aSide(api));

  it("is taken by all but those that sign in or only read, and ignored there", async () => {
    const posts = routes.filter(({ method }) => method === "post");
    const without = posts.filter((route) => !takesIdempotencyKey(route));
    assert.deepEqual(without.map(({ id }) => id).toSorted(), WITHOUT_KEY);
    const { email, password } = side.tenant;
    const headers = { "X-Idempotency-Key": "no good key" };
    assert.equal((await api.post("/api/v1/auth/login", { email, password }, { headers })).status, 200);
  });

  for (const id of SOME)
    it(`has one effect and one answer among ${RIVALS} at once: ${id}`, async () => {
      const { route, call, success } = operations().find((one) => one.route.id === id)!;
      const credentials = credentialsFor(route, side, "");
      const made = await call(side, credentials.key === undefined ? "user" : "key");
      const headers = { ...credentials.headers, "X-Idempotency-Key": randomUUID() };
      const ask = (): Promise<Answer> => send(api, route, made, { ...credentials, headers });
      const answers = await Promise.all(Array.from({ length: RIVALS }, ask));
      const good = answers.filter(({ status }) => status === success);
      const isReplay = (answer: Answer) => answer.headers.get("x-idempotent-replayed") === "true";
      assert.equal(good.filter((answer) => !isReplay(answer)).length, 1, "one has done it");
      assert.equal(new Set(good.map(({ body }) => JSON.stringify(body))).size, 1, "several answers");
      for (const { status, body } of answers.filter((answer) => !good.includes(answer)))
        // A mail a minute to an address is counted before the work.
        assert.ok(body.error.reason === "IDEMPOTENCY_IN_PROGRESS" || status === 429, JSON.stringify(body));
    });
});
