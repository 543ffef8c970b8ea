import assert from "node:assert/strict";
import { parseFilter, parsePath, SCIM_FILTER_MAX, ScimError } from "../../src/domain/accounts/scim/filter.ts";

describe("filters of SCIM", () => {
  it("are comparisons by eq, joined by and, in any case and with any blanks", () => {
    assert.deepEqual(
      parseFilter('  userName  EQ "a \\"b\\" \\u00e9" AND active eq TRUE and x eq -1.5 and y eq null '),
      [
        { attribute: "username", value: 'a "b" é' },
        { attribute: "active", value: true },
        { attribute: "x", value: -1.5 },
        { attribute: "y", value: null },
      ],
    );
    const core = "urn:ietf:params:scim:schemas:core:2.0:User";
    assert.deepEqual(parseFilter(`${core}:userName eq "a"`), [{ attribute: "username", value: "a" }]);
    assert.deepEqual(parseFilter('emails[type eq "work"].value eq "a"'), [
      { attribute: "emails.value", value: "a" },
    ]);
  });

  it("have paths with one filter in brackets", () => {
    assert.deepEqual(parsePath('emails[type eq "work"].value'), {
      attribute: "emails",
      where: { attribute: "type", value: "work" },
      sub: "value",
    });
    assert.deepEqual(parsePath("name.givenName"), { attribute: "name.givenname" });
    for (const text of ["", "[", "a[", "a[b]", 'a[b eq "c"', 'a[b eq "c"]]', "a b", "1", 'a[b eq "c"].', "é"])
      assert.throws(() => parsePath(text), ScimError, text);
  });

  it("are read in no time, whatever they hold, or refused with an error of the protocol", () => {
    const parts = [
      '"',
      "\\",
      "[",
      "]",
      "(",
      " ",
      "eq",
      "and",
      "a",
      ".",
      "-",
      "9",
      "userName",
      "\u0000",
      "é",
      '"a"',
      ":",
    ];
    let seed = 42;
    const next = (max: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return seed % max;
    };
    const texts = Array.from({ length: 20_000 }, () =>
      Array.from({ length: next(30) }, () => parts[next(parts.length)]).join(" ".repeat(next(2))),
    );
    const long = ['"', "a", " ", "9", "[", "\\", '\\"', "a.", "-9.9", "a eq "].map((part) =>
      part.repeat(SCIM_FILTER_MAX).slice(0, SCIM_FILTER_MAX),
    );
    for (const text of [...texts, ...long, ...long.map((part) => `a eq ${part}`.slice(0, SCIM_FILTER_MAX))])
      for (const parse of [parseFilter, parsePath])
        try {
          parse(text);
        } catch (error) {
          assert.ok(error instanceof ScimError, text);
        }
  });
});
