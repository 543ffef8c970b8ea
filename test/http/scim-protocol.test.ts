import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import {
  aGroup,
  aProvider,
  assertScimError,
  aUser,
  mustScim,
  ownProvider,
  patchOf,
  scimClient,
  signedInAs,
} from "../support/scim/provider.ts";
import { startSsoServer } from "../support/sso/server.ts";

const manyOf = (count: number, one: object) => Array.from({ length: count }, () => ({ ...one }));

const filtered = (text: string) => `filter=${encodeURIComponent(text)}`;

describe("the protocol of SCIM", () => {
  const server = madeOnce(
    async () => startSsoServer(await startApp()),
    (made) => made.close(),
  );
  const provider = madeForEach(async () => aProvider(server, await aTenant(server)));

  it("tells what it can do, and of which attributes users and groups are", async () => {
    const { scim } = provider;
    const config = mustScim(await scim("GET", "/ServiceProviderConfig"), 200);
    assert.deepEqual(
      [config.patch, config.bulk.supported, config.filter, config.etag, config.sort],
      [
        { supported: true },
        false,
        { supported: true, maxResults: 100 },
        { supported: true },
        { supported: false },
      ],
    );
    const types = mustScim(await scim("GET", "/ResourceTypes"), 200);
    assert.deepEqual(
      types.Resources.map(({ id, endpoint }: Record<string, string>) => [id, endpoint]),
      [
        ["User", "/Users"],
        ["Group", "/Groups"],
      ],
    );
    const schemas = mustScim(await scim("GET", "/Schemas"), 200);
    assert.equal(schemas.totalResults, 2);
    for (const one of [...types.Resources, ...schemas.Resources]) {
      const path = one.meta.location.replace(`${server.url}/scim/v2`, "");
      assert.deepEqual(mustScim(await scim("GET", path), 200), one);
    }
    const user = await aUser(provider, { externalId: "e", name: { givenName: "A", familyName: "B" } });
    const names = schemas.Resources[0].attributes.map(({ name }: { name: string }) => name);
    const shown = Object.keys(user).filter((name) => !["schemas", "id", "meta"].includes(name));
    assert.deepEqual(shown.toSorted(), names.toSorted());
    for (const path of ["/Schemas/urn:x", "/ResourceTypes/x", "/Bulk", "/Me", "/"])
      assertScimError(await scim("GET", path), 404);
    const refused = await scim("DELETE", "/Users");
    assertScimError(refused, 405);
    assert.equal(refused.headers.get("allow"), "GET, HEAD, POST");
  });

  it("pages through lists from 1 on, and counts all that match", async () => {
    const { scim } = provider;
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) ids.push((await aUser(provider)).id);
    const page = async (query: string) => {
      const answer = mustScim(await scim("GET", `/Users?${query}`), 200);
      const found = answer.Resources.map(({ id }: { id: string }) => ids.indexOf(id));
      return [answer.totalResults, answer.startIndex, answer.itemsPerPage, found];
    };
    assert.deepEqual(await page("startIndex=2&count=2"), [5, 2, 2, [1, 2]]);
    assert.deepEqual(await page("startIndex=5&count=1000"), [5, 5, 1, [4]]);
    assert.deepEqual(await page("startIndex=6"), [5, 6, 0, []]);
    assert.deepEqual(await page("count=0"), [5, 1, 0, []]);
    assert.deepEqual(await page("startIndex=-3&count=-1"), [5, 1, 0, []]);
    assert.deepEqual(await page("startIndex=0&count=1&sortBy=userName&unknown=1"), [5, 1, 1, [0]]);
    for (const query of ["startIndex=x", "count=1.5", "count=1&count=2"])
      assertScimError(await scim("GET", `/Users?${query}`), 400, "invalidValue");
  });

  it("refuses filters that it does not serve, and says which it does", async () => {
    const { scim } = provider;
    for (const text of [
      'userName co "a"',
      'userName eq "a" or userName eq "b"',
      'not (userName eq "a")',
      "userName eq",
      "userName",
      'userName eq "a',
      'userName eq "\\x"',
      'title eq "a"',
      'emails[type eq "home"].value eq "a"',
      'members[value eq "a"] eq "b"',
      `userName eq "${"a".repeat(2_000)}"`,
      Array(6).fill('userName eq "a"').join(" and "),
      "__proto__ eq 1",
      "constructor eq 1",
    ])
      assertScimError(await scim("GET", `/Users?${filtered(text)}`), 400, "invalidFilter");
    const other = await scim("GET", `/Groups?${filtered('userName eq "a"')}`);
    assert.match(assertScimError(other, 400, "invalidFilter"), /displayname/);
    const injected = filtered(`userName eq "a' or '1'='1"`);
    assert.equal(mustScim(await scim("GET", `/Users?${injected}`), 200).totalResults, 0);
    assert.equal(
      mustScim(await scim("GET", `/Users?${filtered("id eq 5 AND active EQ True")}`), 200).totalResults,
      0,
    );
  });

  it("takes and gives application/scim+json, and takes JSON too", async () => {
    const { scim } = provider;
    const userName = provider.address();
    const json = { "Content-Type": "application/json; charset=utf-8" };
    mustScim(await scim("POST", "/Users", { userName }, json), 201);
    for (const type of ["text/plain", "application/xml", "application/scim+json; charset=latin1"])
      assertScimError(await scim("POST", "/Users", { userName }, { "Content-Type": type }), 415);
    assertScimError(await scim("POST", "/Users", "{", {}), 400, "invalidSyntax");
    assertScimError(await scim("POST", "/Users", "[]", {}), 400, "invalidValue");
    assertScimError(await scim("POST", "/Users", { userName, x: "x".repeat(70_000) }), 413);
    assertScimError(await scim("POST", "/Users", '{"userName": "a\\u0000"}'), 400, "invalidValue");
    const found = await scim("GET", "/Users");
    assert.equal(found.headers.get("content-type"), "application/scim+json; charset=utf-8");
    assert.equal(found.headers.get("cache-control"), "no-store");
    const other = scimClient(`${server.url}/api/v1`, provider.token);
    assert.equal((await other("GET", "/Users")).status, 404);
  });

  it("returns the attributes that are wanted", async () => {
    const { scim } = provider;
    const user = await aUser(provider);
    const namesOf = async (path: string) => Object.keys(mustScim(await scim("GET", path), 200)).toSorted();
    const path = `/Users/${user.id}`;
    assert.deepEqual(await namesOf(`${path}?attributes=userName,name.givenName`), [
      "id",
      "name",
      "schemas",
      "userName",
    ]);
    const some = await namesOf(`${path}?excludedAttributes=emails,groups,ID`);
    assert.deepEqual(some, ["active", "displayName", "id", "meta", "name", "roles", "schemas", "userName"]);
    const list = mustScim(
      await scim("GET", "/Users?attributes=urn:ietf:params:scim:schemas:core:2.0:User:userName"),
      200,
    );
    assert.deepEqual(Object.keys(list.Resources[0]).toSorted(), ["id", "schemas", "userName"]);
    const known = await scim("GET", `${path}?attributes=userName`);
    assert.equal(known.headers.get("etag"), user.meta.version);
  });

  it("refuses bad operations of PATCH, and does none of the others with them", async () => {
    const { scim } = provider;
    const user = await aUser(provider);
    const path = `/Users/${user.id}`;
    const good = { op: "replace", path: "displayName", value: "Changed" };
    const cases: [object, string][] = [
      [{ op: "copy", path: "userName" }, "invalidSyntax"],
      [{ op: "remove" }, "noTarget"],
      [{ op: "replace", path: 'emails[type eq "work"', value: "a" }, "invalidPath"],
      [{ op: "replace", path: "a b", value: "a" }, "invalidPath"],
      [{ op: "replace", path: 5, value: "a" }, "invalidSyntax"],
      [{ op: "replace", path: "id", value: "a" }, "mutability"],
      [{ op: "add", path: "groups", value: [] }, "mutability"],
      [{ op: "replace", value: "a" }, "invalidValue"],
      [{ op: "replace", path: "active", value: "maybe" }, "invalidValue"],
      [{ op: "replace", path: "userName", value: 5 }, "invalidValue"],
      [{ op: "remove", path: "userName" }, "invalidValue"],
      [{ op: "replace", path: "displayName", value: "a".repeat(256) }, "invalidValue"],
      [{ op: "replace", path: "displayName", value: "a\u0007b" }, "invalidValue"],
      [{ op: "replace", path: "emails", value: manyOf(21, { value: "a" }) }, "invalidValue"],
      [{ op: "replace", path: "name", value: "Ada" }, "invalidValue"],
    ];
    for (const [operation, scimType] of cases)
      assertScimError(await scim("PATCH", path, patchOf(good, operation)), 400, scimType);
    for (const body of [
      {},
      { Operations: [] },
      { Operations: {} },
      { Operations: [5] },
      { Operations: manyOf(1_001, good) },
    ])
      assert.ok([400, 413].includes((await scim("PATCH", path, body)).status));
    assert.equal(mustScim(await scim("GET", path), 200).displayName, user.displayName);
    const group = await aGroup(provider, "A group", user);
    for (const operation of [
      { op: "add", path: "members", value: [{ value: "x" }] },
      { op: "remove", path: 'members[display eq "x"]' },
      { op: "replace", path: "displayName", value: "" },
    ])
      assertScimError(
        await scim(
          "PATCH",
          `/Groups/${group.id}`,
          patchOf({ op: "replace", path: "externalId", value: "x" }, operation),
        ),
        400,
        operation.op === "remove" ? "invalidPath" : "invalidValue",
      );
    const kept = mustScim(await scim("GET", `/Groups/${group.id}`), 200);
    assert.deepEqual([kept.externalId, kept.members.length], [undefined, 1]);
    assertScimError(await scim("POST", "/Groups", { displayName: "a GROUP" }), 409, "uniqueness");
    assertScimError(await scim("POST", "/Groups", {}), 400, "invalidValue");
  });

  it("lets the address follow the userName where no other is given", async () => {
    const { scim } = provider;
    const user = await aUser(provider);
    const [next, work] = [provider.address(), provider.address()];
    const rename = (value: string) => patchOf({ op: "replace", path: "userName", value });
    const path = `/Users/${user.id}`;
    assert.equal(mustScim(await scim("PATCH", path, rename(next)), 200).emails[0].value, next);
    const add = patchOf({ op: "add", path: "emails", value: [{ value: work, type: "work" }] });
    assert.equal(mustScim(await scim("PATCH", path, add), 200).emails[0].value, work);
    assert.equal(mustScim(await scim("PATCH", path, rename("ada")), 200).emails[0].value, work);
    const found = mustScim(await scim("GET", `/Users?${filtered('userName eq "ADA"')}`), 200);
    assert.equal(found.totalResults, 1);
    const remove = patchOf({ op: "remove", path: 'emails[type eq "work"]' });
    assertScimError(await scim("PATCH", path, remove), 400, "invalidValue");
  });
});

const SCIM = "/api/v1/enterprise/scim";

describe("roles by the groups of SCIM", () => {
  const { api, server, tenant, provider } = ownProvider();

  const put = (body: object) => server.put(SCIM, body, { token: tenant.token });
  const roleOf = async (id: string): Promise<string> =>
    mustScim(await provider.scim("GET", `/Users/${id}`), 200).roles[0].value;
  const members = async (op: string, group: { id: string }, ...users: { id: string }[]) => {
    const value = users.map(({ id }) => ({ value: id }));
    mustScim(
      await provider.scim("PATCH", `/Groups/${group.id}`, patchOf({ op, path: "members", value })),
      204,
    );
  };

  beforeEach(async () => {
    const groups = [
      { displayName: "Admins", role: "ADMIN" },
      { displayName: "Designers", role: "DESIGNER" },
      { externalId: "dev-1", role: "DEVELOPER" },
    ];
    must(await put({ defaultRole: "VIEWER", groups }), 200);
  });

  it("are the highest of a person's groups, and the default role outside all", async () => {
    const ada = await aUser(provider);
    assert.equal(await roleOf(ada.id), "VIEWER");
    const others = await aGroup(provider, "Others", ada);
    assert.equal(await roleOf(ada.id), "VIEWER");
    const designers = await aGroup(provider, "designers", ada);
    assert.equal(await roleOf(ada.id), "DESIGNER");
    const admins = await aGroup(provider, "Admins");
    await members("add", admins, ada);
    assert.equal(await roleOf(ada.id), "ADMIN");
    await members("remove", admins, ada);
    assert.equal(await roleOf(ada.id), "DESIGNER");
    await members("remove", others, ada);
    mustScim(await provider.scim("DELETE", `/Groups/${designers.id}`), 204);
    assert.equal(await roleOf(ada.id), "VIEWER");
    const changes = (await auditOf(api, ada.id)).filter(({ action }) => action === "member.role_changed");
    assert.deepEqual(
      changes.map(({ actor, data }) => [actor, data.from, data.to]),
      [
        ["VIEWER", "DESIGNER"],
        ["DESIGNER", "ADMIN"],
        ["ADMIN", "DESIGNER"],
        ["DESIGNER", "VIEWER"],
      ].map((change) => [`scim-token:${provider.tokenId}`, ...change]),
    );
  });

  it("count at the person's next request", async () => {
    const ada = await aUser(provider);
    const token = await signedInAs(api, ada.id);
    const invite = () => server.get("/api/v1/audit-log", { token });
    assertError(await invite(), 403, "INSUFFICIENT_ROLE");
    const admins = await aGroup(provider, "Admins", ada);
    must(await invite(), 200);
    await members("remove", admins, ada);
    assertError(await invite(), 403, "INSUFFICIENT_ROLE");
  });

  it("follow a group that is renamed, and settings that change", async () => {
    const [ada, bob] = [await aUser(provider), await aUser(provider)];
    const group = await aGroup(provider, "Some", ada);
    const path = `/Groups/${group.id}`;
    const rename = (value: object) => provider.scim("PATCH", path, patchOf({ op: "replace", value }));
    mustScim(await rename({ displayName: "Designers" }), 204);
    assert.equal(await roleOf(ada.id), "DESIGNER");
    mustScim(await rename({ externalId: "dev-1", displayName: "Some" }), 204);
    assert.equal(await roleOf(ada.id), "DEVELOPER");
    const groups = [{ externalId: "dev-1", role: "ADMIN" }];
    must(await put({ defaultRole: "DESIGNER", groups }), 200);
    assert.equal(await roleOf(ada.id), "ADMIN");
    assert.equal(await roleOf(bob.id), "VIEWER");
    must(await put({ defaultRole: "DESIGNER", groups: [] }), 200);
    assert.equal(await roleOf(ada.id), "DESIGNER");
    assert.equal(await roleOf((await aUser(provider)).id), "DESIGNER");
  });

  it("return with a person who is let in again", async () => {
    const ada = await aUser(provider);
    const path = `/Users/${ada.id}`;
    mustScim(await provider.scim("PATCH", path, patchOf({ op: "replace", value: { active: false } })), 200);
    await aGroup(provider, "Designers", ada);
    const back = mustScim(
      await provider.scim("PATCH", path, patchOf({ op: "add", path: "active", value: true })),
      200,
    );
    assert.equal(back.roles[0].value, "DESIGNER");
  });

  it("never make an OWNER, nor end one", async () => {
    for (const body of [
      { defaultRole: "OWNER" },
      { groups: [{ displayName: "Bosses", role: "OWNER" }] },
      { groups: [{ role: "ADMIN" }] },
      { groups: [{ displayName: "a", externalId: "b", role: "ADMIN" }] },
      {
        groups: [
          { displayName: "a", role: "ADMIN" },
          { displayName: "A", role: "VIEWER" },
        ],
      },
    ])
      assertError(await put(body), 400);
    const ada = await aUser(provider);
    const role = (value: string) =>
      server.patch(`/api/v1/team/members/${ada.id}`, { role: value }, { token: tenant.token });
    must(await role("OWNER"), 200);
    const group = await aGroup(provider, "Designers", ada);
    assert.equal(await roleOf(ada.id), "OWNER");
    await members("remove", group, ada);
    assert.equal(await roleOf(ada.id), "OWNER");
    const sent = await provider.scim(
      "PATCH",
      `/Users/${ada.id}`,
      patchOf({ op: "add", path: "roles", value: [] }),
    );
    assertScimError(sent, 400, "mutability");
    const mine = { userName: ada.userName, roles: [{ value: "VIEWER" }], groups: [] };
    assert.equal(mustScim(await provider.scim("PUT", `/Users/${ada.id}`, mine), 200).roles[0].value, "OWNER");
  });

  it("stay what an OWNER has set by hand until the groups change", async () => {
    const ada = await aUser(provider);
    const group = await aGroup(provider, "Designers", ada);
    must(
      await server.patch(`/api/v1/team/members/${ada.id}`, { role: "ADMIN" }, { token: tenant.token }),
      200,
    );
    mustScim(
      await provider.scim(
        "PATCH",
        `/Users/${ada.id}`,
        patchOf({ op: "add", path: "displayName", value: "Ada" }),
      ),
      200,
    );
    assert.equal(await roleOf(ada.id), "ADMIN");
    await members("remove", group, ada);
    assert.equal(await roleOf(ada.id), "VIEWER");
  });
});
