import assert from "node:assert/strict";
import { listeningRule, unique } from "../support/operations/bodies.ts";
import {
  HOSTILE_TEXTS,
  HOSTILE_VALUES,
  indecency,
  leakIn,
  placesOf,
  type RawAnswer,
  sendRaw,
} from "../support/http/hostile.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { refuseHostile } from "../../src/domain/kernel/hostile-json.ts";
import { errorBody, fieldsOf, parseBody, parseParams, queryChecker } from "../../src/http/validate.ts";
import { type AnyRoute, takesBody } from "../../src/http/route.ts";
import { anAdmin } from "../support/app/admin.ts";
import { startApp } from "../support/app/app.ts";
import { aSide } from "../support/app/sides.ts";
import { MADE_TO_FAIL } from "../support/domain/domain.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { madeOnce } from "../support/made.ts";
import {
  asOf,
  type Call,
  callersOf,
  credentialsFor,
  forgetLimits,
  type Operation,
  operations,
} from "../support/operations/operations.ts";
import { databaseText } from "../support/secrets/traces.ts";

type Tree = Record<string, unknown>;
const isTree = (value: unknown): value is Tree => value !== null && typeof value === "object";

/** The paths of every value inside a body, and of the fields that the schema knows and the body lacks. */
const placesIn = (body: unknown, known: readonly string[]): string[][] => {
  const places: string[][] = known.map((name) => [name]);
  const walk = (value: unknown, path: string[]): void => {
    if (path.length > 0) places.push(path);
    if (isTree(value)) for (const name of Object.keys(value)) walk(value[name], [...path, name]);
  };
  walk(body, []);
  return [...new Map(places.map((path) => [path.join("\0"), path])).values()];
};

/** The body with another value at `path`; a key of its own, else a second one would be refused for that. */
const withValue = (body: unknown, path: readonly string[], value: unknown): Tree => {
  const copy = structuredClone(isTree(body) ? body : {});
  if ("key" in copy) copy["key"] = unique("swept");
  const parent = path.slice(0, -1).reduce((at, name) => at[name] as Tree, copy);
  const name = path.at(-1)!;
  Object.defineProperty(parent, name, { value, enumerable: true, configurable: true, writable: true });
  return copy;
};

/** The hostile values, parsed. */
const VALUES: readonly unknown[] = HOSTILE_VALUES.map((text) => JSON.parse(text) as unknown);
/** What a parameter is once it is decoded; undefined for what is refused before that. */
const decoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
};
/** Hostile texts as they stand in an address, and what is read of them. */
const TEXTS = HOSTILE_TEXTS.map((text) => [text, decoded(text)] as const).filter(
  (pair): pair is [string, string] => pair[1] !== undefined && !pair[1].includes("\0"),
);

/** What a column of the database, or who reads it, may trip over. */
const HARMFUL = VALUES.filter(
  (value) =>
    (typeof value === "number" && (Math.abs(value) > 2 ** 30 || !Number.isSafeInteger(value * 1e9))) ||
    (typeof value === "string" && !["", " "].includes(value)) ||
    (typeof value === "object" && value !== null && Object.keys(value).length > 0),
);

let turn = 0;
/** A few of them, others each time. */
const some = <T>(all: readonly T[], count: number): T[] => {
  turn++;
  return Array.from({ length: Math.min(count, all.length) }, (_, i) => all[(turn + i) % all.length]!);
};

/** Marks that stand nowhere unless a request has put them there. */
const [ID, NUMBER, TIME, TEXT] = [
  "deadbeef-0bad-7000-8000-5e7700000000",
  918_273_645,
  "2003-02-01T04:05:06.789Z",
  "assigned-by-a-caller",
];
/** What a text has of it, where it was taken. */
const MARKS = [ID, String(NUMBER), TIME.slice(0, 10), TEXT];
/** What the server alone writes, in any record: ids, counters, times, states. */
const OWNED: readonly (readonly [string, unknown])[] = [
  ["id tenantId projectId userId eventId ownerProjectId actsOnProjectId sandboxOf periodId ruleId keyId", ID],
  ["xp level seq ledgerSeq configVersion version draftVersion publishedVersion attempts", NUMBER],
  ["createdAt updatedAt deletedAt lastUsedAt lastSeenAt receivedAt processedAt usedAt", TIME],
  ["prefix key_hash secretHash passwordHash createdBy published pauseReason balanceAfter cause source", TEXT],
  ["status role approvalStatus plan", "SUPERADMIN"],
  ["emailVerified isTest", true],
].flatMap(([names, value]) =>
  String(names)
    .split(" ")
    .map((name) => [name, value] as const),
);
/** The other spelling of a name. */
const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Bytes of the answer to a request that is refused for what it says. */
const REFUSAL_MAX = 4_096;
const AT = new Date();
/** The answer names them, or tells what is wrong with a document whatever it is. */
const IGNORING = ["identifyPlayer", "trackEvent", "updatePlayer", "validateRule"];

/** An object with one name of its own, also if that is what every object inherits. */
const named = (name: string, value: unknown): object => Object.fromEntries([[name, value]]);

const PAGED: ReadonlySet<string> = new Set(["page", "limit", "sort", "order", "cursor", "__proto__"]);
/** What they make is evaluated afterwards. */
const EVALUATED: ReadonlySet<string> = new Set(["createRule", "createLeaderboard"]);

describe("what stands in a request", function () {
  this.timeout(400_000);
  const api = madeOnce(startApp);
  const side = madeOnce(() => aSide(api));
  const admin = madeOnce(() => anAdmin(api));
  const problems: string[] = [];
  const assertDecent = (): void => assert.deepEqual(problems.splice(0), []);

  /** Whether the reader of a request takes it; notes a refusal that is none, is long or tells of the inside. */
  const isTaken = async (what: string, read: () => unknown): Promise<boolean> => {
    try {
      await read();
      return true;
    } catch (error) {
      const shown = error instanceof DomainError ? JSON.stringify(errorBody(error, "x".repeat(36), AT)) : "";
      const leak = leakIn(shown);
      if (shown === "") problems.push(`${what}: ${String(error)}`);
      else if (Buffer.byteLength(shown) > REFUSAL_MAX) problems.push(`${what}: ${shown.length} characters`);
      else if (leak) problems.push(`${what} leaks the inside: ${leak}`);
      return false;
    }
  };
  const readBody = async (route: AnyRoute, body: unknown): Promise<unknown> => {
    if (route.itemised !== true) refuseHostile("", body);
    return parseBody(route, body);
  };

  const withBody = () => operations().filter(({ route }) => route.body !== undefined);
  const callOf = ({ route, call }: Operation): Promise<Call> | Call => call(side, asOf(callersOf(route)[0]!));

  const calls = new Map<string, Call>();
  /** The same call for several tests, which do nothing to what it is about; a new one if it uses its caller up. */
  const knownCallOf = async (operation: Operation): Promise<Call> => {
    const { id } = operation.route;
    const made = calls.get(id) ?? (await callOf(operation));
    if (made.token === undefined) calls.set(id, made);
    return made;
  };

  let sent = 0;
  /** Sends what the schemas take; the answer may be anything but a fault. */
  const send = async (operation: Operation, { token, headers }: Call, path: string, body?: unknown) => {
    const { route } = operation;
    if (sent++ % 50 === 0) await forgetLimits(api, side, admin.adminId);
    const own = credentialsFor(route, side, admin.token);
    const bearer = own.token === undefined ? undefined : (token ?? own.token);
    const answer: RawAnswer = await sendRaw(api.url, {
      method: route.method.toUpperCase(),
      path: `/api/v1${path}`,
      headers: {
        "Content-Type": "application/json",
        ...own.headers,
        ...(own.key === undefined ? {} : { "X-API-Key": own.key }),
        ...(bearer === undefined ? {} : { Authorization: `Bearer ${bearer}` }),
        ...headers,
      },
      ...(body === undefined || route.method === "get" ? {} : { body: JSON.stringify(body) }),
    });
    const problem = indecency(answer);
    if (problem !== undefined)
      problems.push(`${route.id} ${path.slice(0, 120)} ${JSON.stringify(body)?.slice(0, 200)}: ${problem}`);
    return answer;
  };

  /** Bodies that are taken with something harmful at a place: one, or some of what is evaluated afterwards. */
  const takenBodies = async (
    route: AnyRoute,
    valid: unknown,
    place: readonly string[],
  ): Promise<unknown[]> => {
    const taken: unknown[] = [];
    for (const value of some(HARMFUL, HARMFUL.length)) {
      if (taken.length === (EVALUATED.has(route.id) ? 3 : 1)) break;
      const body = withValue(valid, place, value);
      if (await isTaken(route.id, () => readBody(route, body))) taken.push(body);
    }
    return taken;
  };

  it("at any place of a body is refused in a few words, or taken", async () => {
    const known = new Set<unknown>();
    for (const { route } of withBody())
      for (const { name, schema, wrap } of placesOf(route.body)) {
        // What several operations share is looked at in the first of them.
        if (known.has(schema)) continue;
        known.add(schema);
        for (const value of VALUES) await isTaken(`${route.id}${name}`, () => readBody(route, wrap(value)));
      }
    assert.ok(known.size > 1_000, `${known.size} places`);
    assertDecent();
  });

  it("of a body under a name that it has not is refused, but where names are ignored on purpose", async () => {
    const taking: string[] = [];
    for (const operation of withBody().filter(({ route }) => !route.takesForm)) {
      const { route } = operation;
      const call = await knownCallOf(operation);
      const own = new Set([...fieldsOf(route.body), ...Object.keys(call.body as object)]);
      const given = OWNED.filter(([name]) => !own.has(name));
      for (const names of [given, given.map(([name, value]) => [snake(name), value])]) {
        const body = { ...(Object.fromEntries(names) as object), ...(call.body as object) };
        if (!(await isTaken(route.id, () => readBody(route, body)))) continue;
        const { status, text } = await send(operation, call, call.path, body);
        if (status < 300) taking.push(route.id);
        for (const mark of MARKS) if (text.includes(mark)) problems.push(`${route.id} shows ${mark}`);
      }
    }
    assert.deepEqual([...new Set(taking)].toSorted(), IGNORING);
    const rows = await databaseText(api);
    assert.deepEqual(
      MARKS.filter((mark) => rows.includes(mark)),
      [],
      "nothing of it is stored",
    );
    assertDecent();
  });

  it("in a path and that is taken finds nothing, or what it names", async () => {
    const before = sent;
    for (const operation of operations().filter(({ route }) => route.path.includes("{"))) {
      const { route } = operation;
      // Where there is nothing beside the hostile text, it need not be in place of something that is there.
      const isAlone = route.path.split("{").length === 2 && !takesBody(route);
      const call = isAlone ? { path: route.path } : await knownCallOf(operation);
      const [path = "", query] = call.path.split("?");
      const [names, parts] = [route.path.split("/"), path.split("/")];
      const own = Object.fromEntries(names.map((name, at) => [name.slice(1, -1), parts[at]!]));
      for (const [at, name] of names.entries()) {
        if (!name.startsWith("{")) continue;
        const taken: string[] = [];
        for (const [text, value] of TEXTS)
          if (await isTaken(route.id, () => parseParams(route, { ...own, [name.slice(1, -1)]: value })))
            taken.push(text);
        for (const text of some(taken, 1))
          await send(operation, call, [parts.with(at, text).join("/"), query].join("?"), call.body);
      }
    }
    assert.ok(sent - before > 300, `${sent - before} requests`);
    assertDecent();
  });

  it("in a query and that is taken is read as what it is", async () => {
    const before = sent;
    const met = new Set<string>();
    for (const operation of operations()) {
      const { route } = operation;
      const check = queryChecker(route);
      for (const name of [...fieldsOf(route.query), "__proto__"]) {
        // Pages are read in one way for all lists.
        const kind = PAGED.has(name) ? name : `${route.tag} ${name}`;
        if (met.has(kind)) continue;
        met.add(kind);
        const call = await knownCallOf(operation);
        const [path = "", query = ""] = call.path.split("?");
        const { [name]: _replaced, ...rest } = Object.fromEntries(new URLSearchParams(query));
        const taken: string[] = [];
        for (const [text, value] of TEXTS)
          if (await isTaken(`${route.id} ${name}`, () => check({ ...rest, ...named(name, value) })))
            taken.push(text);
        const others = new URLSearchParams(rest).toString();
        for (const text of some(taken, 2))
          await send(operation, call, `${path}?${name}=${text}&${others}`, call.body);
      }
    }
    assert.ok(sent - before > 200, `${sent - before} requests`);
    assertDecent();
  });

  it("in a body and that is taken is stored as what it is", async () => {
    const before = sent;
    const met = new Set<string>();
    for (const operation of withBody()) {
      const { route } = operation;
      if (route.takesForm || route.signatureHeader !== undefined) continue;
      const call = await callOf(operation);
      for (const valid of [call.body, ...(operation.also ?? []).map((make) => make())])
        for (const place of placesIn(valid, fieldsOf(route.body))) {
          // What is made and changed has the same fields: they are met once.
          const kind = `${EVALUATED.has(route.id) ? route.id : route.tag} ${place.join(".")}`;
          if (met.has(kind)) continue;
          met.add(kind);
          for (const body of await takenBodies(route, valid, place))
            await send(operation, call, call.path, body);
        }
    }
    assert.ok(sent - before > 500, `${sent - before} requests`);
    assertDecent();
  });

  it("of rules that were accepted harms no evaluation, nor do properties of events", async () => {
    const { key, projectId } = side.tenant;
    await side.make("/rules", listeningRule);
    for (const aggregate of ["sum", "latest", "max"]) {
      const metric = { source: "EVENT", event: { eventTypes: ["*"] }, aggregate, property: "v" };
      await side.make("/leaderboards", { key: aggregate, name: "V", metric, scoreDecimals: 6 });
    }
    const drafts = await api.sql<{ id: string }>`select id from rules
      where project_id = ${projectId} and status = 'DRAFT' order by id`;
    assert.ok(drafts.length > 30, `only ${drafts.length} rules were accepted`);
    for (const { id } of drafts) {
      const { status } = await api.post(`/api/v1/rules/${id}/publish`, {}, { key });
      assert.ok(status === 200 || status === 400, `${id}: ${status}`);
    }
    const properties = ['{"a":{"b":"y"}}', ...HOSTILE_VALUES.map((text) => `{"v":${text}}`)];
    for (const eventType of ["swept", "__proto__", "constructor"]) {
      const events = properties.map(
        (text, n) =>
          `{"externalUserId":"evaluated-${n % 5}","eventType":"${eventType}","properties":${text}}`,
      );
      const { body } = await api.post("/api/v1/events/batch?wait=true", `{"events":[${events.join()}]}`, {
        key,
      });
      for (const { status, message } of body.results)
        assert.ok(status === "PROCESSED" || status === "REJECTED", message);
    }
  });

  it("in a header is refused or ignored", async () => {
    const identify = operations().find(({ route }) => route.id === "identifyPlayer")!;
    const call = await callOf(identify);
    const names = "X-Project-ID X-API-Key Authorization X-Request-Id X-Forwarded-For Content-Type".split(" ");
    const values = [
      "",
      " ",
      "null",
      "__proto__",
      "é".repeat(50),
      "x".repeat(5_000),
      "Bearer ",
      "Bearer a b",
      "1,2",
    ];
    for (const name of names)
      for (const value of values) {
        const headers = { [name]: Buffer.from(value).toString("latin1") };
        await send(identify, { ...call, headers }, call.path, call.body);
      }
    assertDecent();
  });

  it("leaves the server alive, its queue empty, no event failed and no prototype changed", async () => {
    assert.equal((await fetch(`${api.url}/health/ready`)).status, 200);
    await eventuallyHolds(async () => {
      const rows = await api.sql<{ queued: number; postponed: number; failed: string | null }>`
        select (select count(*) from event_q)::int as queued, (select count(*) from event_due)::int as postponed,
          (select max(error) from event_results where status = 'FAILED' and error <> ${MADE_TO_FAIL}) as failed`;
      assert.deepEqual({ ...rows[0] }, { queued: 0, postponed: 0, failed: null });
    });
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
  });
});
