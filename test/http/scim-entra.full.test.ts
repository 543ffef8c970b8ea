import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { addUser } from "../../src/domain/accounts/tenants/tenant.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { aProvider, assertScimError, mustScim, patchOf, signedInAs } from "../support/scim/provider.ts";
import { startSsoServer } from "../support/sso/server.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const filter = (text: string) => `filter=${encodeURIComponent(text)}`;
const ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";

describe("the life of people and groups as Microsoft Entra leads it", () => {
  /** As Entra sends it. */
  const entraUser = (userName: string, externalId: string) => ({
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:User", ENTERPRISE],
    externalId,
    userName,
    active: true,
    emails: [{ primary: true, type: "work", value: userName }],
    meta: { resourceType: "User" },
    name: { formatted: "givenName familyName", familyName: "familyName", givenName: "givenName" },
    roles: [],
    title: "Engineer",
    [ENTERPRISE]: { department: "R&D" },
  });

  const api = madeOnce(startApp);
  const server = madeOnce(
    () => startSsoServer(api),
    (made) => made.close(),
  );
  const tenant = madeForEach(() => aTenant(server));
  const entra = madeForEach(() => aProvider(server, tenant));

  it("passes what the SCIM validator asks of users", async () => {
    const { scim } = entra;
    const [email, other, externalId] = [entra.address(), entra.address(), randomUUID()];
    const unknown = `/Users?${filter('userName eq "non-existent user"')}`;
    const none = mustScim(await scim("GET", unknown), 200);
    assert.deepEqual([none.totalResults, none.Resources, none.startIndex], [0, [], 1]);
    const { id } = mustScim(await scim("POST", "/Users", entraUser(email, externalId)), 201);
    const path = `/Users/${id}`;
    for (const text of [
      `userName eq "${email}"`,
      `externalId eq "${externalId}"`,
      `emails[type eq "work"].value eq "${email}"`,
      `emails.value eq "${email}" and active eq true`,
    ]) {
      const found = mustScim(await scim("GET", `/Users?${filter(text)}`), 200);
      assert.deepEqual([found.totalResults, found.Resources[0]?.id], [1, id], text);
    }
    const changed = mustScim(
      await scim(
        "PATCH",
        path,
        patchOf(
          { op: "Replace", path: 'emails[type eq "work"].value', value: other },
          { op: "Replace", path: "name.familyName", value: "Updated" },
          { op: "Add", path: "displayName", value: "Ada Updated" },
          { op: "Add", path: `${ENTERPRISE}:department`, value: "Sales" },
          { op: "Add", path: 'phoneNumbers[type eq "mobile"].value', value: "123" },
        ),
      ),
      200,
    );
    assert.deepEqual(changed.emails, [{ value: other, type: "work", primary: true }]);
    assert.equal(changed.userName, email);
    assert.equal(changed.name.familyName, "Updated");
    assert.equal(changed.displayName, "Ada Updated");
    const renamed = entra.address();
    const rename = patchOf({ op: "replace", path: "userName", value: renamed });
    assert.equal(mustScim(await scim("PATCH", path, rename), 200).userName, renamed);
    assert.equal(
      mustScim(await scim("GET", `/Users?${filter(`userName eq "${email}"`)}`), 200).totalResults,
      0,
    );

    const token = await signedInAs(api, id);
    const off = patchOf({ op: "Replace", path: "active", value: "False" });
    assert.equal(mustScim(await scim("PATCH", path, off), 200).active, false);
    must(await server.get("/api/v1/auth/me", { token }), 401);
    const on = patchOf({ op: "Replace", path: "active", value: "True" });
    assert.equal(mustScim(await scim("PATCH", path, on), 200).active, true);
    must(await server.get("/api/v1/projects", { token: await signedInAs(api, id) }), 200);
    mustScim(await scim("DELETE", path), 204);
    assertScimError(await scim("GET", path), 404);
    assertScimError(await scim("DELETE", path), 404);
    assert.equal(
      mustScim(await scim("GET", `/Users?${filter(`userName eq "${renamed}"`)}`), 200).totalResults,
      0,
    );
  });

  it("takes operations without a path, with whole paths as names, and single values in lists", async () => {
    const { scim } = entra;
    const { id } = mustScim(await scim("POST", "/Users", entraUser(entra.address(), "a")), 201);
    const email = entra.address();
    const changed = mustScim(
      await scim(
        "PATCH",
        `/Users/${id}`,
        patchOf(
          {
            op: "Add",
            value: {
              "name.givenName": "Grace",
              "urn:ietf:params:scim:schemas:core:2.0:User:name.familyName": "Hopper",
              'emails[type eq "work"].value': email,
              [`${ENTERPRISE}:employeeNumber`]: "1",
            },
          },
          { op: "Replace", path: "externalId", value: [{ $ref: null, value: "b" }] },
          { op: "Remove", path: "name.formatted" },
        ),
      ),
      200,
    );
    assert.equal(changed.name.givenName, "Grace");
    assert.equal(changed.name.familyName, "Hopper");
    assert.equal(changed.emails[0].value, email);
    assert.equal(changed.externalId, "b");
  });

  it("passes what the SCIM validator asks of groups", async () => {
    const { scim } = entra;
    const user = mustScim(await scim("POST", "/Users", entraUser(entra.address(), "a")), 201);
    const displayName = `Group ${randomUUID()}`;
    const externalId = randomUUID();
    const schemas = ["urn:ietf:params:scim:schemas:core:2.0:Group"];
    const body = { schemas, externalId, displayName, meta: { resourceType: "Group" } };
    const made = mustScim(await scim("POST", "/Groups", body), 201);
    const path = `/Groups/${made.id}`;
    const bare = mustScim(await scim("GET", `${path}?excludedAttributes=members`), 200);
    assert.equal("members" in bare, false);
    const query = `/Groups?excludedAttributes=members&${filter(`displayName eq "${displayName}"`)}`;
    const found = mustScim(await scim("GET", query), 200);
    assert.deepEqual([found.totalResults, found.Resources[0].id], [1, made.id]);
    const rename = patchOf({ op: "Replace", path: "displayName", value: `${displayName} 2` });
    mustScim(await scim("PATCH", path, rename), 204);

    const value = [{ $ref: null, value: user.id }];
    const isMember = async (): Promise<boolean> => {
      const text = `id eq "${made.id}" and members eq "${user.id}"`;
      const answer = mustScim(await scim("GET", `/Groups?excludedAttributes=members&${filter(text)}`), 200);
      return answer.totalResults === 1;
    };
    assert.equal(await isMember(), false);
    mustScim(await scim("PATCH", path, patchOf({ op: "Add", path: "members", value })), 204);
    assert.equal(await isMember(), true);
    mustScim(await scim("PATCH", path, patchOf({ op: "Add", path: "members", value })), 204);
    assert.equal(mustScim(await scim("GET", path), 200).members.length, 1);
    mustScim(await scim("PATCH", path, patchOf({ op: "Remove", path: "members", value })), 204);
    assert.equal(await isMember(), false);
    mustScim(await scim("DELETE", path), 204);
    assertScimError(await scim("DELETE", path), 404);
  });

  it("finds people who were members before, and leads them from then on", async () => {
    const { scim } = entra;
    const email = entra.address();
    const before = mustScim(await scim("GET", "/Users"), 200).totalResults;
    const { id } = await api.app.transact(async (work) => {
      const fields = { name: "An old hand", role: "DEVELOPER", status: "ACTIVE" } as const;
      return addUser(work, tenant.tenantId, { ...fields, email, passwordHash: null, emailVerified: true });
    });
    const found = mustScim(await scim("GET", `/Users?${filter(`userName eq "${email}"`)}`), 200);
    assert.deepEqual([found.totalResults, found.Resources[0].id], [1, id]);
    assert.equal(mustScim(await scim("GET", "/Users"), 200).totalResults, before + 1);
    const adopt = patchOf({ op: "Add", path: "externalId", value: "e1" });
    const adopted = mustScim(await scim("PATCH", `/Users/${id}`, adopt), 200);
    assert.deepEqual([adopted.externalId, adopted.displayName], ["e1", "An old hand"]);
    assert.deepEqual(adopted.roles, [{ value: "DEVELOPER", primary: true }]);
  });
});
