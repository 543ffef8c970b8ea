import assert from "node:assert/strict";
import type { AnyRoute } from "../../src/http/route.ts";
import { routes } from "../../src/http/routes.ts";
import { scimRoutes } from "../../src/http/scim/groups.ts";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import {
  HOSTILE_BODIES,
  HOSTILE_TEXTS,
  HOSTILE_VALUES,
  indecency,
  sendRaw,
} from "../support/http/hostile.ts";
import {
  aGroup,
  aProvider,
  assertScimError,
  aUser,
  patchOf,
  type Provider,
  SCIM_TYPE,
  scimClient,
} from "../support/scim/provider.ts";
import { type SsoServer, startSsoServer } from "../support/sso/server.ts";

/** A valid call: the path below the base URL. */
type Call = { path: string; body?: unknown; targetId?: string };
type Recipe = (provider: Provider) => Promise<Call>;

const onUser =
  (body?: (user: { userName: string }) => object): Recipe =>
  async (provider) => {
    const user = await aUser(provider);
    return { path: `/Users/${user.id}`, targetId: user.id, ...(body ? { body: body(user) } : {}) };
  };

const onGroup =
  (body?: (member: { id: string }) => object): Recipe =>
  async (provider) => {
    const member = await aUser(provider);
    const group = await aGroup(provider, `Group ${provider.address()}`);
    return { path: `/Groups/${group.id}`, targetId: group.id, ...(body ? { body: body(member) } : {}) };
  };

const at =
  (path: string): Recipe =>
  async () => ({ path });

const user = (userName: string) => ({
  schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
  userName,
  externalId: "e",
  active: true,
  name: { givenName: "Ada", familyName: "Lovelace", formatted: "Ada Lovelace" },
  displayName: "Ada",
  emails: [{ value: userName, type: "work", primary: true }],
});

const RECIPES: Record<string, Recipe> = {
  scimListUsers: at('/Users?filter=userName%20eq%20"a"&startIndex=1&count=2'),
  scimCreateUser: async ({ address }) => ({ path: "/Users", body: user(address()) }),
  scimGetUser: onUser(),
  scimReplaceUser: onUser(({ userName }) => user(userName)),
  scimPatchUser: onUser(() =>
    patchOf({ op: "replace", path: "displayName", value: "Ada" }, { op: "add", value: { active: false } }),
  ),
  scimDeleteUser: onUser(),
  scimListGroups: at('/Groups?filter=displayName%20eq%20"a"'),
  scimCreateGroup: async (provider) => {
    const { id } = await aUser(provider);
    return { path: "/Groups", body: { displayName: provider.address(), members: [{ value: id }] } };
  },
  scimGetGroup: onGroup(),
  scimReplaceGroup: onGroup(({ id }) => ({
    displayName: `G ${id}`,
    externalId: "e",
    members: [{ value: id }],
  })),
  scimPatchGroup: onGroup(({ id }) =>
    patchOf(
      { op: "add", path: "members", value: [{ value: id }] },
      { op: "remove", path: `members[value eq "${id}"]` },
      { op: "replace", value: { externalId: "x" } },
    ),
  ),
  scimDeleteGroup: onGroup(),
  scimGetProviderConfig: at("/ServiceProviderConfig"),
  scimListResourceTypes: at("/ResourceTypes"),
  scimGetResourceType: at("/ResourceTypes/User"),
  scimListSchemas: at("/Schemas"),
  scimGetSchema: at("/Schemas/urn:ietf:params:scim:schemas:core:2.0:User"),
};

const isChange = ({ method }: AnyRoute): boolean => method !== "get";
const hasBody = ({ method }: AnyRoute): boolean => method !== "get" && method !== "delete";

/** The body as JSON with each of its values replaced by a text as it stands, one at a time. */
const variationsOf = (body: unknown): string[] => {
  const texts: string[] = [];
  const walk = (value: unknown, put: (text: string) => string, depth: number): void => {
    for (const [n, text] of HOSTILE_VALUES.entries()) if (n % 3 === depth % 3) texts.push(put(text));
    if (typeof value !== "object" || value === null) return;
    for (const [name, part] of Object.entries(value)) {
      const rest = Object.entries(value).filter(([other]) => other !== name);
      const others = rest.map(([other, one]) => [other, JSON.stringify(one)] as const);
      const written = (text: string): string =>
        Array.isArray(value)
          ? `[${[...others.map(([, one]) => one), text].join(",")}]`
          : `{${[...others, [name, text]].map(([key, one]) => `${JSON.stringify(key)}:${one}`).join(",")}}`;
      walk(part, (text) => put(written(text)), depth + 1);
    }
  };
  walk(body, (text) => text, 0);
  return texts;
};

type Hostile = [path: string, body: string | Buffer | undefined];

const PARAMETERS = ["filter", "startIndex", "count", "attributes", "excludedAttributes", "__proto__"];

/** Each place meets a sixth of the values, and its neighbours the others. */
const SHARES = 6;
const share = <T>(all: readonly T[], place: number): T[] =>
  all.filter((_, i) => i % SHARES === place % SHARES);

/** Requests to the operation at `place` of the list with one hostile part each. */
const hostileTo = (place: number, route: AnyRoute, { path, body }: Call): Hostile[] => {
  const valid = hasBody(route) ? JSON.stringify(body) : undefined;
  const [base = ""] = path.split("?", 1);
  const folder = path.slice(0, path.lastIndexOf("/"));
  const ids = route.path.includes("{") ? share(HOSTILE_TEXTS, place).map((text) => `${folder}/${text}`) : [];
  const queries = PARAMETERS.flatMap((name, n) =>
    share(HOSTILE_TEXTS, place + n).map((text) => `${base}?${name}=${text}`),
  );
  const bodies = hasBody(route) ? [...share(HOSTILE_BODIES, place), ...share(variationsOf(body), place)] : [];
  return [
    ...[...ids, ...queries].map((one): Hostile => [one, valid]),
    ...bodies.map((one): Hostile => [path, one]),
  ];
};

describe("every operation of SCIM", () => {
  let api: TestApp;
  let server: SsoServer;
  let tenant: Tenant;
  let provider: Provider;

  const each = async (run: (route: AnyRoute, call: Call) => Promise<void>): Promise<void> => {
    for (const route of scimRoutes) {
      const recipe = RECIPES[route.id];
      assert.ok(recipe, `RECIPES has no ${route.id}`);
      await run(route, await recipe(provider));
    }
  };
  const call = (of: Provider["scim"], { method }: AnyRoute, { path, body }: Call) =>
    of(method.toUpperCase(), path, body);
  const resetRate = () => api.app.limiter.reset(LIMITS.scim, tenant.tenantId);

  before(async () => {
    api = await startApp();
    server = await startSsoServer(api);
    tenant = await aTenant(server);
    provider = await aProvider(server, tenant);
  });
  after(() => server.close());

  it("does its work, and records a change under the name of the token", async () => {
    await each(async (route, made) => {
      const answer = await call(provider.scim, route, made);
      assert.ok(answer.status < 300, `${route.id}: ${answer.status} ${JSON.stringify(answer.body)}`);
      if (!isChange(route)) return;
      const entries = await auditOf(api, made.targetId ?? answer.body.id);
      const last = entries.at(-1);
      assert.equal(last?.actor, `scim-token:${provider.tokenId}`, route.id);
    });
  });

  it("refuses who has no token of SCIM", async () => {
    const tokens = [undefined, tenant.token, "x", `${provider.token}x`, tenant.key];
    await each(async (route, made) => {
      for (const token of tokens)
        assertScimError(await call(scimClient(server.url, token), route, made), 401);
    });
  });

  it("may be repeated: what is made is there once, what is changed or gone stays so", async () => {
    await each(async (route, made) => {
      const first = await call(provider.scim, route, made);
      const second = await call(provider.scim, route, made);
      if (route.method === "post") assertScimError(second, 409, "uniqueness");
      else if (route.method === "delete") assertScimError(second, 404);
      else {
        assert.equal(second.status, first.status, route.id);
        const { meta: _first, ...was } = first.body ?? {};
        const { meta: _second, ...is } = second.body ?? {};
        assert.deepEqual(is, was, route.id);
      }
    });
  });

  it("answers hostile paths, queries and bodies with an error of the protocol", async () => {
    const problems: string[] = [];
    let sent = 0;
    const attack = async (route: AnyRoute, path: string, body?: string | Buffer): Promise<void> => {
      const method = route.method.toUpperCase();
      const headers = { Authorization: `Bearer ${provider.token}`, "Content-Type": SCIM_TYPE };
      const request = { method, path: `/scim/v2${path}`, headers };
      const answer = await sendRaw(server.url, body === undefined ? request : { ...request, body });
      const problem = indecency(answer);
      if (problem !== undefined) problems.push(`${method} ${path} ${String(body).slice(0, 200)}: ${problem}`);
      sent++;
    };
    for (const [place, route] of scimRoutes.entries()) {
      const requests = hostileTo(place, route, await RECIPES[route.id]!(provider));
      for (let i = 0; i < requests.length; i += 8) {
        if (i % 800 === 0) await resetRate();
        await Promise.all(requests.slice(i, i + 8).map(([path, body]) => attack(route, path, body)));
      }
    }
    assert.deepEqual(problems, []);
    assert.ok(sent > 900, `only ${sent} requests`);
  });

  it("is open to tokens of SCIM alone, and those to nothing else", () => {
    const isOfScim = ({ access }: AnyRoute): boolean => access !== "public" && access.scim === true;
    assert.deepEqual(
      scimRoutes.filter((route) => !isOfScim(route)).map(({ id }) => id),
      [],
    );
    assert.deepEqual(
      routes.filter(isOfScim).map(({ id }) => id),
      [],
    );
  });
});
