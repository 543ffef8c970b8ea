import assert from "node:assert/strict";
import type { App } from "../../src/app.ts";
import type { RowScope } from "../../src/domain/kernel/work.ts";
import { type Answer, startApp, type TestApp } from "../support/app/app.ts";
import { anotherServer } from "../support/app/another-server.ts";
import type { Client } from "../support/http/client.ts";
import { type Effects, readEffects } from "../support/app/effects.ts";
import { type As, forgetLimits, type Operation, operations, send } from "../support/operations/operations.ts";
import { aSide, type Side } from "../support/app/sides.ts";

/** Of tenants: what super-admins and everybody may do has no walls between tenants. */
const guarded = operations().filter(
  ({ route }) => route.access !== "public" && route.access.admin === undefined,
);
const isOpenTo = ({ route: { access } }: Operation, as: As): boolean =>
  access !== "public" && (as === "key" ? access.scope : access.roles) !== undefined;

/** Ingestion sees all: it looks by itself which projects a caller's events may name. */
const UNWALLED = new Set(["trackEvent", "trackEvents"]);
/** Success without a row: defaults, a token of the caller's own project, the end of no session. */
const BLIND = new Set([
  ...UNWALLED,
  "getLevelCurve",
  "getScim",
  "previewLevelCurve",
  "createWsToken",
  "logout",
  "validateRule",
  "getRuleGraph",
  "getRuleCatalogue",
  "getBacklog",
]);
/** Lists of what is the same for everybody. */
const CATALOGUES = new Set(["listWebhookEventTypes"]);

describe("every operation of a tenant whose application forgets whom it serves", () => {
  let api: TestApp;
  /** Whose rows the database shows, whoever the application thinks is asking. */
  let own: Side;
  let other: Side;
  let misled: Client;
  /** What there was before the call. */
  let untouched: Effects;

  before(async () => {
    api = await startApp();
    [own, other] = [await aSide(api), await aSide(api)];
    const { app } = api;
    const { tenantId, projectId } = own.tenant;
    const walled = (scope: RowScope): RowScope =>
      scope.role === "web" ? { ...scope, tenantId, projectIds: [projectId] } : scope;
    const parts: Partial<App> = {
      transactAs: (scope) => app.transactAs(walled(scope)),
      replicaAs: (scope) => app.replicaAs(walled(scope)),
      transactShared: (scope, sharing) => app.transactShared(walled(scope), sharing),
    };
    misled = await anotherServer(api, {}, parts);
  });

  const tenants = () => [own.tenant.tenantId, other.tenant.tenantId];
  /** A call as `other`, whom the database does not know. */
  const ask = async ({ route, call }: Operation, as: As): Promise<Answer> => {
    await forgetLimits(api, other, "");
    const { key, token, projectId } = other.tenant;
    const who = as === "key" ? { key } : { token, headers: { "X-Project-ID": projectId } };
    const request = await call(other, as);
    untouched = await readEffects(api, tenants());
    return send({ ...api, ...misled }, route, request, { ...who, isUnchecked: true });
  };

  for (const as of ["key", "user"] as const)
    for (const operation of guarded.filter((one) => isOpenTo(one, as))) {
      const { id } = operation.route;
      it(`neither shows nor changes rows of another: ${id} for a ${as}`, async () => {
        const answer = await ask(operation, as);
        const { tenantId, userId, projectId, email } = other.tenant;
        const text = JSON.stringify(answer.body);
        for (const theirs of [tenantId, userId, projectId, email]) assert.ok(!text.includes(theirs), text);
        const listed: unknown = answer.body.data ?? answer.body.identities ?? [];
        if (!CATALOGUES.has(id)) assert.deepEqual(listed, [], "a list shows something");
        if (answer.status < 400) assert.ok(BLIND.has(id) || id.startsWith("list"), text);
        if (!UNWALLED.has(id)) assert.equal((await readEffects(api, tenants())).print, untouched.print);
      });
    }
});
