import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { App } from "../../src/app.ts";
import { isTransacting } from "../../src/domain/kernel/transact.ts";
import { type Admin, anAdmin } from "../support/app/admin.ts";
import { type Answer, startApp } from "../support/app/app.ts";
import { anotherServer } from "../support/app/another-server.ts";
import type { Client } from "../support/http/client.ts";
import { type Effects, grownFrom, readEffects } from "../support/app/effects.ts";
import {
  type As,
  type Call,
  credentialsFor,
  forgetLimits,
  type Operation,
  operations,
  send,
} from "../support/operations/operations.ts";
import { aSide } from "../support/app/sides.ts";
import { madeOnce } from "../support/made.ts";

const RIVALS = 6;
/** They ask for the password, of which a session may give five at one moment. */
const PROVING = new Set(["transferOwnership", "resetMemberMfa"]);

/** Operations that take no key: who they are for is not known yet, or they hand out sessions. */
const WITHOUT_KEY = [
  "discoverSso",
  "completeSsoSaml",
  "createBillingCheckout",
  "createBillingPortal",
  "queryAnalyticsFunnel",
  "queryAnalyticsPlayers",
  "receiveBillingEvent",
  "register",
  "login",
  "refreshSession",
  "logout",
  "changePassword",
  "forgotPassword",
  "resetPassword",
  "verifyEmail",
  "resendVerification",
  "completeProfile",
  "exchangeOAuthCode",
  "startOAuthLink",
  "createWsToken",
  "acceptInvitation",
  "completeLogin",
  "startPasskeyLogin",
  "loginWithPasskey",
  "verifySecondFactor",
  "replaceRecoveryCodes",
  "setUpTotp",
  "enableTotp",
  "disableTotp",
  "startPasskey",
  "addPasskey",
  "superadminLogin",
  "completeSuperadminLogin",
  "replaceSuperadminRecoveryCodes",
  "setUpSuperadminTotp",
  "enableSuperadminTotp",
  "disableSuperadminTotp",
  "startSuperadminPasskey",
  "addSuperadminPasskey",
  "superadminLogout",
  "superadminChangePassword",
];
/** After which the caller is nobody, or may not ask again: access is checked before an answer is repeated. */
const ACCESS_LOST: Readonly<Record<string, number>> = { leaveTeam: 401, transferOwnership: 403 };
/** A mail a minute to an address is counted before the work. */
const MAILING = new Set(["createInvitation", "addMember", "resendInvitation"]);

/** Lobbies that earlier operations have made go on by themselves: they count where lobbies are asked for. */
const printFor = ({ route }: Operation, { print }: Effects): string[] =>
  print.split("\n").filter((line) => route.tag === "Lobbies" || !/^(lobbies|lobby_members) /.test(line));

const posts = operations().filter(({ route }) => route.method === "post");
const keyed = posts.filter(({ route }) => !WITHOUT_KEY.includes(route.id));
const isReplay = ({ headers }: Answer) => headers.get("x-idempotent-replayed") === "true";

describe("X-Idempotency-Key on every POST operation", () => {
  const api = madeOnce(startApp);
  const side = madeOnce(() => aSide(api));
  let admin: Admin;

  beforeEach(async () => {
    admin = await anAdmin(api);
    await forgetLimits(api, side, admin.adminId);
  });

  const effects = () => readEffects(api, [side.tenant.tenantId]);
  const asOf = ({ route }: Operation): As =>
    route.access !== "public" && route.access.scope !== undefined ? "key" : "user";
  const callOf = async (operation: Operation): Promise<Call> => operation.call(side, asOf(operation));
  const post = ({ route }: Operation, call: Call, key?: string, at = api): Promise<Answer> => {
    const credentials = credentialsFor(route, side, admin.token);
    const headers = key === undefined ? {} : { "X-Idempotency-Key": key };
    return send(at, route, call, { ...credentials, headers: { ...credentials.headers, ...headers } });
  };
  const succeeds = (answer: Answer, { success }: Operation) =>
    assert.equal(answer.status, success, JSON.stringify(answer.body));

  const known = new Map<string, Record<string, number>>();
  /** What one request without a key makes of the database. */
  const effectOfOne = async (operation: Operation): Promise<Record<string, number>> => {
    const { id } = operation.route;
    const effect = known.get(id) ?? (await findEffect(operation));
    known.set(id, effect);
    return effect;
  };
  const findEffect = async (operation: Operation): Promise<Record<string, number>> => {
    const call = await callOf(operation);
    const before = await effects();
    succeeds(await post(operation, call), operation);
    return grownFrom(before, await effects());
  };

  it("is taken by all but those that sign in or only read, and ignored there", async () => {
    const without = posts.filter(
      ({ route }) => route.access === "public" || route.takesNoIdempotencyKey === true,
    );
    assert.deepEqual(without.map(({ route }) => route.id).toSorted(), WITHOUT_KEY.toSorted());
    for (const operation of without) {
      // Some end the session that calls them.
      admin = await anAdmin(api);
      const answer = await post(operation, await callOf(operation), "no good key");
      succeeds(answer, operation);
      assert.equal(isReplay(answer), false);
    }
  });

  for (const operation of keyed) {
    const { id } = operation.route;
    it(`has one effect and one answer, sent twice: ${id}`, async () => {
      const effect = await effectOfOne(operation);
      const [call, key] = [await callOf(operation), randomUUID()];
      const before = await effects();
      const first = await post(operation, call, key);
      succeeds(first, operation);
      const once = await effects();
      assert.deepEqual(grownFrom(before, once), effect);
      const again = await post(operation, call, key);
      const lost = ACCESS_LOST[id];
      if (lost === undefined) assert.deepEqual([again.status, again.body], [first.status, first.body]);
      else assert.equal(again.status, lost);
      assert.deepEqual([isReplay(first), isReplay(again)], [false, lost === undefined]);
      assert.deepEqual(printFor(operation, await effects()), printFor(operation, once));
    });

    it(`has one effect and one answer among ${RIVALS} at once: ${id}`, async () => {
      const effect = await effectOfOne(operation);
      const [call, key] = [await callOf(operation), randomUUID()];
      const before = await effects();
      const answers = await Promise.all(Array.from({ length: RIVALS }, () => post(operation, call, key)));
      const good = answers.filter(({ status }) => status === operation.success);
      assert.equal(new Set(good.map(({ body }) => JSON.stringify(body))).size, 1, "several answers");
      assert.equal(good.filter((answer) => !isReplay(answer)).length, 1);
      const refused = answers.filter((answer) => !good.includes(answer));
      for (const { status, body } of refused) {
        const isExpected =
          (status === 409 && body.error.reason === "IDEMPOTENCY_IN_PROGRESS") ||
          (status === 429 && MAILING.has(id)) ||
          (status === 429 && PROVING.has(id) && body.error.reason === "LOGIN_THROTTLED") ||
          status === ACCESS_LOST[id];
        assert.ok(isExpected, JSON.stringify(body));
      }
      assert.deepEqual(grownFrom(before, await effects()), effect);
    });
  }

  describe("asks nothing but the database while its transaction is open", () => {
    let watching: Client;
    const asked: string[] = [];

    /** Notes whoever calls one of the functions of `part` inside a transaction. */
    const watched = <T extends object>(name: string, part: T): T =>
      new Proxy(part, {
        get: (target, property, receiver): unknown => {
          const value: unknown = Reflect.get(target, property, receiver);
          if (typeof value !== "function") return value;
          return (...values: unknown[]): unknown => {
            if (isTransacting()) asked.push(`${name}.${String(property)}`);
            return Reflect.apply(value, target, values);
          };
        },
      });

    before(async () => {
      const { ranks, limiter, topics, passwords, captcha, oauth, mailer, queue, liveRooms } = api.app;
      const parts = {
        ranks,
        limiter,
        topics,
        passwords,
        captcha,
        oauth,
        mailer,
        queue,
        liveRooms: liveRooms!,
      };
      const guarded = Object.entries(parts).map(([name, part]) => [name, watched(name, part)]);
      watching = await anotherServer(api, {}, Object.fromEntries(guarded) as Partial<App>);
    });

    for (const operation of keyed) {
      it(operation.route.id, async () => {
        asked.length = 0;
        const call = await callOf(operation);
        succeeds(await post(operation, call, randomUUID(), { ...api, ...watching }), operation);
        assert.deepEqual(asked, []);
      });
    }
  });
});
