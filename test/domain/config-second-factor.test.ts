import assert from "node:assert/strict";
import { readConfig } from "../../src/config.ts";
import { problemsOf } from "../support/config-problems.ts";

const PRODUCTION = {
  NODE_ENV: "production",
  PUBLIC_URL: "https://api.example.com",
  EMAIL_MODE: "off",
};

describe("the configuration of second factors", () => {
  it("gives passkeys to the console's host or a domain above it, and to no other", () => {
    assert.deepEqual(readConfig({}).passkeys, { rpId: "localhost", origins: ["http://localhost:2567"] });
    const CONSOLE_URL = "https://console.example.com/app";
    const origins = ["https://console.example.com"];
    assert.deepEqual(readConfig({ CONSOLE_URL }).passkeys, { rpId: "console.example.com", origins });
    const above = { CONSOLE_URL, PASSKEY_RP_ID: "example.com" };
    assert.deepEqual(readConfig(above).passkeys, { rpId: "example.com", origins });
    const two = {
      PASSKEY_ORIGINS: "https://a.example.com, https://b.example.com",
      PASSKEY_RP_ID: "example.com",
    };
    assert.deepEqual(readConfig(two).passkeys.origins, ["https://a.example.com", "https://b.example.com"]);
    assert.deepEqual(problemsOf({ ...two, PASSKEY_RP_ID: "" }), ["PASSKEY_RP_ID"]);
    for (const foreign of ["other.com", "ample.com", "app.console.example.com"])
      assert.deepEqual(problemsOf({ CONSOLE_URL, PASSKEY_RP_ID: foreign }), ["PASSKEY_RP_ID"], foreign);
    assert.deepEqual(problemsOf({ PASSKEY_RP_ID: "https://example.com" }), ["PASSKEY_RP_ID"]);
    assert.deepEqual(problemsOf({ ...PRODUCTION, PASSKEY_ORIGINS: "http://a.example" }), ["PASSKEY_ORIGINS"]);
  });

  it("lets super-admins in without a second factor in no production", () => {
    assert.equal(readConfig({}).isSuperadminMfaRequired, true);
    for (const off of ["off", "false", "0", "No", "disabled"]) {
      assert.equal(readConfig({ SUPERADMIN_MFA_REQUIRED: off }).isSuperadminMfaRequired, false, off);
      const problems = problemsOf({ ...PRODUCTION, SUPERADMIN_MFA_REQUIRED: off });
      assert.deepEqual(problems, ["SUPERADMIN_MFA_REQUIRED"], off);
    }
  });
});
