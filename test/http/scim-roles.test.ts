import assert from "node:assert/strict";
import { auditOf } from "../support/app/audit.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import {
  aGroup,
  ownProvider,
  assertScimError,
  aUser,
  mustScim,
  patchOf,
  signedInAs,
} from "../support/scim/provider.ts";

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
