import assert from "node:assert/strict";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { aProvider, aUser, mustScim, patchOf, type Provider } from "../support/scim/provider.ts";
import { startSsoServer } from "../support/sso/server.ts";
import { madeOnce } from "../support/made.ts";

describe("a user of SCIM whom a super-admin has disabled", () => {
  let provider: Provider;
  const api = madeOnce(startApp);
  const server = madeOnce(
    () => startSsoServer(api),
    (made) => made.close(),
  );
  before(async () => {
    provider = await aProvider(server, await aTenant(server));
  });

  it("is shown as inactive, and suspended by no change of something else", async () => {
    const { id } = await aUser(provider);
    const disable = (disabledAt: Date | null) =>
      api.app.transact(({ em }) => em.nativeUpdate(User, { id }, { disabledAt }));
    await disable(new Date());
    const rename = patchOf({ op: "replace", path: "displayName", value: "Another name" });
    const shown = mustScim(await provider.scim("PATCH", `/Users/${id}`, rename), 200);
    assert.deepEqual([shown.displayName, shown.active], ["Another name", false]);
    await disable(null);
    assert.equal(mustScim(await provider.scim("GET", `/Users/${id}`), 200).active, true);
  });
});
