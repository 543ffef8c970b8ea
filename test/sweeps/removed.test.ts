import assert from "node:assert/strict";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { startApp, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { aMember } from "../support/app/member.ts";
import { operations, send } from "../support/operations/operations.ts";
import { aSide, type Side } from "../support/app/sides.ts";

const ofUsers = operations().filter(({ route: { access } }) => access !== "public" && access.roles);

/** Sessions are read anew every 5 s: until then, a process serves who was removed by another. */
describe("a user who was removed a moment ago, unknown to this process", () => {
  let api: TestApp;
  let side: Side;
  before(async () => {
    api = await startApp();
    side = await aSide(api);
  });

  for (const { route, call } of ofUsers)
    it(`meets no fault: ${route.id}`, async () => {
      const { tenantId, projectId, password } = side.tenant;
      const { userId, token } = await aMember(api, tenantId, "OWNER");
      const request = await call(side, "user");
      const passwordHash = await api.app.passwords.hash(password);
      await api.app.transact(({ em }) => em.nativeUpdate(User, { id: userId }, { passwordHash }));
      must(await api.get("/api/v1/tenant", { token }), 200);
      await api.app.transact(({ em }) => em.nativeDelete(User, { id: userId }));
      const options = { token, headers: { "X-Project-ID": projectId } };
      const answer = await send(api, route, { ...request, token }, options);
      assert.ok(answer.status < 500, JSON.stringify(answer.body));
    });
});
