import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { aMember } from "../support/app/member.ts";
import { operations, send } from "../support/operations/operations.ts";
import { aSide } from "../support/app/sides.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { madeOnce } from "../support/made.ts";

/** Sessions are read anew every 5 s: until then, a process serves who was removed by another. */
describe("a user who was removed a moment ago, unknown to this process", () => {
  const api = madeOnce(startApp);
  const side = madeOnce(() => aSide(api));

  // One of their own account, one of their tenant, one that names them as the author.
  for (const id of ["updateAccount", "createInvitation", "createRule"])
    it(`meets no fault: ${id}`, async () => {
      const { tenantId, projectId } = side.tenant;
      const { route, call } = operations().find((one) => one.route.id === id)!;
      const { userId, token } = await aMember(api, tenantId, "OWNER");
      const request = await call(side, "user");
      must(await api.get("/api/v1/tenant", { token }), 200);
      await api.app.transact(({ em }) => em.nativeDelete(User, { id: userId }));
      const options = { token, headers: { "X-Project-ID": projectId } };
      const answer = await send(api, route, { ...request, token }, options);
      assert.ok(answer.status < 500, JSON.stringify(answer.body));
    });
});
