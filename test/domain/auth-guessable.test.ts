import assert from "node:assert/strict";
import { isGuessable, passwordProblems } from "../../src/domain/accounts/auth/passwords.ts";

describe("passwords that everybody tries first", () => {
  const ada = { email: "ada.king@example.com", name: "Ada Lovelace" };

  it("are refused with whatever numbers and signs around or in them", () => {
    const usual = [
      "Password1",
      "P@ssw0rd",
      "Passw0rd!23",
      "Welcome1",
      "Qwerty123",
      "Abcd1234",
      "Aa123456",
      "Admin@123",
    ];
    for (const password of [...usual, "Letmein1", "1Q2w3e4r!", "Trustno1", "Changeme1", "Pa55word2026"]) {
      const problems = passwordProblems(password, ada).map(({ message }) => message);
      assert.equal(problems.length, 1, password);
      assert.match(problems[0] ?? "", /common word/);
    }
  });

  it("are refused when they are made of the name or the address", () => {
    for (const password of ["AdaLovelace1", "Lovelace1815", "Ada.King1815", "Ada12345"]) {
      assert.equal(passwordProblems(password, ada).length, 1, password);
    }
  });

  it("are not seen where such a word is a part of more", () => {
    for (const password of ["Engine-No-1", "Correct-horse-7", "My-password-is-long-1", "Ada-on-the-moon-9"]) {
      assert.deepEqual(passwordProblems(password, ada), [], password);
    }
  });

  it("are not found in what has no letters, whatever is known", () => {
    assert.equal(isGuessable("12345678", ["", "..."]), false);
  });
});
