import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { aProvider, assertScimError, mustScim, signedInAs } from "../support/scim/provider.ts";
import { startSsoServer } from "../support/sso/server.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const filter = (text: string) => `filter=${encodeURIComponent(text)}`;

describe("the life of people and groups as Okta leads it", () => {
  /** As Okta sends it. */
  const oktaUser = (userName: string, more: object = {}) => ({
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
    userName,
    name: { givenName: "Ada", familyName: "Lovelace" },
    emails: [{ primary: true, value: userName, type: "work" }],
    displayName: "Ada Lovelace",
    locale: "en-US",
    externalId: "00ujl29u0le5T6Aj10h7",
    groups: [],
    password: "1mz050nq",
    active: true,
    ...more,
  });

  const api = madeOnce(startApp);
  const server = madeOnce(
    () => startSsoServer(api),
    (made) => made.close(),
  );
  const tenant = madeForEach(() => aTenant(server));
  const okta = madeForEach(() => aProvider(server, tenant));

  it("passes what Okta's test suite of SCIM 2.0 asks for", async () => {
    const { scim } = okta;
    const first = mustScim(await scim("GET", "/Users?count=1&startIndex=1"), 200);
    assert.deepEqual(first.schemas, ["urn:ietf:params:scim:api:messages:2.0:ListResponse"]);
    for (const name of ["totalResults", "itemsPerPage", "startIndex"])
      assert.equal(typeof first[name], "number");
    assert.ok(Array.isArray(first.Resources));

    const email = okta.address();
    const missing = mustScim(await scim("GET", `/Users?${filter(`userName eq "${email}"`)}`), 200);
    assert.deepEqual([missing.totalResults, missing.Resources], [0, []]);
    assertScimError(await scim("GET", `/Users/${randomUUID()}`), 404);

    const made = await scim("POST", "/Users", oktaUser(email));
    const { id, meta, ...rest } = mustScim(made, 201);
    assert.equal(made.headers.get("content-type"), "application/scim+json; charset=utf-8");
    assert.equal(made.headers.get("location"), `${server.url}/scim/v2/Users/${id}`);
    assert.equal(made.headers.get("etag"), meta.version);
    assert.equal(meta.resourceType, "User");
    assert.equal(meta.location, made.headers.get("location"));
    assert.deepEqual(rest, {
      schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
      externalId: "00ujl29u0le5T6Aj10h7",
      userName: email,
      name: { formatted: "Ada Lovelace", givenName: "Ada", familyName: "Lovelace" },
      displayName: "Ada Lovelace",
      active: true,
      emails: [{ value: email, type: "work", primary: true }],
      groups: [],
      roles: [{ value: "VIEWER", primary: true }],
    });
    assert.deepEqual(mustScim(await scim("GET", `/Users/${id}`), 200), { id, meta, ...rest });
    const found = mustScim(
      await scim("GET", `/Users?${filter(`userName eq "${email.toUpperCase()}"`)}`),
      200,
    );
    assert.deepEqual([found.totalResults, found.Resources[0].id], [1, id]);
    assertScimError(await scim("POST", "/Users", oktaUser(email)), 409, "uniqueness");
    assertScimError(await scim("POST", "/Users", { schemas: [] }), 400, "invalidValue");
  });

  it("updates by PUT, deactivates by PATCH without a path, and lets back in by PUT", async () => {
    const { scim } = okta;
    const email = okta.address();
    const { id } = mustScim(await scim("POST", "/Users", oktaUser(email)), 201);
    const path = `/Users/${id}`;
    const known = mustScim(await scim("GET", path), 200);
    const put = { ...known, name: { givenName: "Augusta", familyName: "King" }, displayName: "Augusta King" };
    const updated = mustScim(await scim("PUT", path, put), 200);
    assert.deepEqual(updated.name, { formatted: "Augusta King", givenName: "Augusta", familyName: "King" });
    assert.notEqual(updated.meta.version, known.meta.version);

    const token = await signedInAs(api, id);
    assert.equal(must(await server.get("/api/v1/auth/me", { token }), 200).user.name, "Augusta King");
    const off = {
      schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
      Operations: [{ op: "replace", value: { active: false } }],
    };
    assert.equal(mustScim(await scim("PATCH", path, off), 200).active, false);
    must(await server.get("/api/v1/auth/me", { token }), 401);
    const members = must(await server.get("/api/v1/team/members", { token: tenant.token }), 200);
    assert.equal(members.data.find((one: { id: string }) => one.id === id).status, "SUSPENDED");

    assert.equal(mustScim(await scim("PUT", path, oktaUser(email)), 200).active, true);
    const again = await signedInAs(api, id);
    must(await server.get("/api/v1/projects", { token: again }), 200);
    must(await server.get("/api/v1/auth/me", { token }), 401);
  });

  it("pushes groups: made, renamed with its id in the value, members replaced, deleted", async () => {
    const { scim } = okta;
    const ids = [];
    for (let i = 0; i < 3; i++) {
      const made = mustScim(
        await scim("POST", "/Users", oktaUser(okta.address(), { externalId: `u${i}` })),
        201,
      );
      ids.push(made.id as string);
    }
    const [ada, bob, cleo] = ids as [string, string, string];
    const schemas = ["urn:ietf:params:scim:schemas:core:2.0:Group"];
    const made = mustScim(await scim("POST", "/Groups", { schemas, displayName: "Devs", members: [] }), 201);
    const path = `/Groups/${made.id}`;
    const operations = (...Operations: object[]) => ({
      schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
      Operations,
    });
    const idsNow = async (): Promise<string[]> =>
      mustScim(await scim("GET", path), 200)
        .members.map(({ value }: { value: string }) => value)
        .toSorted();

    const rename = operations({ op: "replace", value: { id: made.id, displayName: "Developers" } });
    mustScim(await scim("PATCH", path, rename), 204);
    const found = mustScim(await scim("GET", `/Groups?${filter('displayName eq "developers"')}`), 200);
    assert.deepEqual([found.totalResults, found.Resources[0].id], [1, made.id]);

    const names = (...values: string[]) => values.map((value) => ({ value, display: "x@example.com" }));
    mustScim(
      await scim("PATCH", path, operations({ op: "add", path: "members", value: names(ada, bob) })),
      204,
    );
    assert.deepEqual(await idsNow(), [ada, bob].toSorted());
    const remove = operations({ op: "remove", path: `members[value eq "${ada}"]` });
    mustScim(await scim("PATCH", path, remove), 204);
    mustScim(await scim("PATCH", path, remove), 204);
    assert.deepEqual(await idsNow(), [bob]);
    const replace = operations({ op: "replace", path: "members", value: names(ada, cleo) });
    mustScim(await scim("PATCH", path, replace), 204);
    assert.deepEqual(await idsNow(), [ada, cleo].toSorted());
    const user = mustScim(await scim("GET", `/Users/${ada}`), 200);
    assert.deepEqual(
      user.groups.map(({ value, display }: Record<string, string>) => ({ value, display })),
      [{ value: made.id, display: "Developers" }],
    );
    const put = { schemas, id: made.id, displayName: "Developers", members: names(bob) };
    mustScim(await scim("PUT", path, put), 200);
    assert.deepEqual(await idsNow(), [bob]);
    mustScim(await scim("DELETE", path), 204);
    assertScimError(await scim("GET", path), 404);
  });
});
