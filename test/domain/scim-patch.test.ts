import assert from "node:assert/strict";
import {
  addressOf,
  type Draft,
  emptyDraft,
  patchDraft,
  readPatch,
} from "../../src/domain/accounts/scim/draft.ts";

const OLD = "old@acme.example";
const NEW = "new@acme.example";

/** The address of an account after one operation of PATCH. */
const addressAfter = (operation: object): string => {
  const emails = [{ value: OLD, type: "work", primary: true }];
  const draft: Draft = { ...emptyDraft(true), userName: "ada", emails };
  return addressOf(patchDraft(draft, readPatch({ Operations: [operation] }))).email;
};

describe("an address that a PATCH of SCIM makes primary", () => {
  it("becomes that of the account, in every form of the operation", () => {
    const home = { value: NEW, primary: true };
    for (const operation of [
      { op: "add", path: "emails", value: [{ ...home, type: "home" }] },
      { op: "add", path: 'emails[type eq "home"]', value: home },
      { op: "replace", path: 'emails[type eq "home"]', value: home },
      { op: "add", value: { 'emails[type eq "home"]': home } },
      { op: "replace", value: { emails: [{ ...home, type: "home" }] } },
    ])
      assert.equal(addressAfter(operation), NEW, JSON.stringify(operation));
    assert.equal(addressAfter({ op: "add", path: 'emails[type eq "home"].value', value: NEW }), OLD);
  });
});
