import assert from "node:assert/strict";
import {
  DEFAULT_SCOPES,
  EVERY_ROLE,
  type Needs,
  PLAN_FEATURES,
  PLAN_LIMITS,
  type PlanLimits,
  PLANS,
  SCOPES,
  scopesOf,
} from "../src/domain/kernel/caller.ts";
import { checkCeiling } from "../src/domain/accounts/api-keys/api-keys.ts";
import { MAIL_TEMPLATES } from "../src/domain/accounts/email/templates/templates.ts";
import { ERROR_STATUS } from "../src/domain/kernel/errors.ts";
import { LIMITS } from "../src/domain/accounts/rate-limits/limiter.ts";
import { DEFAULT_SETTINGS } from "../src/domain/evaluation/project-settings.ts";
import type { AnyRoute } from "../src/http/route.ts";
import { routes } from "../src/http/routes.ts";
import { namesIn, rowsOf } from "./support/documents/documents.ts";
import { readSourceFiles } from "./support/source/source-files.ts";

const ACCOUNTS = "docs/guides/accounts.md";
const KEYS = "docs/guides/keys-and-limits.md";
const PERMISSIONS = "docs/guides/permissions.md";

const files = readSourceFiles();
const number = new Intl.NumberFormat("en");

const remarksOf = ({ scope, verifiedEmail, approval, feature, ...open }: Needs): string =>
  [
    ...(scope === undefined ? [] : [`keys also \`${scope}\``]),
    ...(verifiedEmail ? ["verified address"] : []),
    ...(approval ? ["approved tenant"] : []),
    ...(feature === undefined ? [] : [`plan with ${feature}`]),
    ...(open.pending ? ["also while waiting"] : []),
    ...(open.suspended ? ["also when suspended"] : []),
    ...(open.enrolling ? ["also while enrolling"] : []),
  ].join(", ");

/** Roles, scope of a key, remarks: as permissions.md has them. */
const accessOf = ({ access }: AnyRoute): string[] => {
  if (access === "public") return ["everyone", "", ""];
  const { roles, admin, needs = {} } = access;
  if (admin !== undefined)
    return [
      admin === "*" ? "super-admins" : `super-admins, platform tokens with \`${admin}\``,
      "",
      remarksOf(needs),
    ];
  const who = roles === undefined ? "" : roles.length === EVERY_ROLE.length ? "every role" : roles.join(", ");
  const scopes = scopesOf(access).map((scope) => `\`${scope}\``);
  return [who, scopes.join(" or "), remarksOf(needs)];
};

const nameOf = ({ method, path }: AnyRoute): string => `\`${method.toUpperCase()} ${path}\``;

/** A row for those operations that the same callers may call, in which those of a group stand together. */
const permissionRows = (): string[][] => {
  const byGroup = [...Map.groupBy(routes, ({ tag }) => tag).values()].flat();
  return [...Map.groupBy(byGroup, (route) => accessOf(route).join(" | ")).values()].map((alike) => [
    ...accessOf(alike[0]!),
    alike.map(nameOf).join(", "),
  ]);
};

const lines = (rows: readonly (readonly string[])[]): string =>
  rows.map((row) => `| ${row.join(" | ")} |`.replaceAll(/ {2,}/g, " ")).join("\n");

const numberText = (value: number | null): string => (value === null ? "none" : number.format(value));

/** Reasons that are thrown by the usual helpers, where a reader of the code would look for them. */
const thrownReasons = (): Set<string> => {
  const calls = [
    /\b(?:conflict|forbidden|unauthorized)\(\s*"([A-Z_]+)"/g,
    /\bnew RateLimited\(\s*"([A-Z_]+)"/g,
    // Up to the end of the statement, not to a semicolon of its message.
    /\bnew DomainError\((?:(?!;\n)[^])*?\breason: "([A-Z_]+)"/g,
    /\binvalid\((?:(?!;\n)[^])*?"([A-Z]+_[A-Z_]+)",?\s*\)/g,
  ];
  const texts = files.filter(({ path }) => /^src\/(domain|http|platform)\//.test(path));
  return new Set(
    texts.flatMap(({ text }) => calls.flatMap((call) => [...text.matchAll(call)].map(([, name]) => name!))),
  );
};

/** Never answered while the key is held. */
const UNSEEN = new Set(["ALREADY_ANSWERED"]);

describe("the tables of the guides", () => {
  it("show who may call each operation, as the routes have it", () => {
    assert.equal(lines(rowsOf(PERMISSIONS, "Operations")), lines(permissionRows()));
  });

  it("show the limits and features of every plan", () => {
    const names = Object.keys(PLAN_LIMITS.FREE) as (keyof PlanLimits)[];
    const limits = names.map((name) => [
      `\`${name}\``,
      ...PLANS.map((plan) => numberText(PLAN_LIMITS[plan][name])),
    ]);
    const features = PLANS.map((plan) => PLAN_FEATURES[plan].map((name) => `\`${name}\``).join(" "));
    assert.equal(lines(rowsOf(ACCOUNTS, "Plans")), lines([...limits, ["features", ...features]]));
  });

  it("show every scope, whether a key has it by default and whether a DEVELOPER may grant it", () => {
    const mayGrant = (scope: string): string => {
      try {
        checkCeiling("DEVELOPER", [scope]);
        return "yes";
      } catch {
        return "no";
      }
    };
    const expected = SCOPES.map((scope) => [
      `\`${scope}\`${DEFAULT_SCOPES.includes(scope) ? " (default)" : ""}`,
      mayGrant(scope),
    ]);
    const shown = rowsOf(KEYS, "Scopes").map(([scope, , grant]) => [scope, grant]);
    assert.deepEqual(shown, expected);
  });

  it("show every limit with its numbers", () => {
    const expected = Object.values(LIMITS).map(({ name, points, seconds }) =>
      [name, number.format(points), number.format(seconds)].join(" "),
    );
    const shown = rowsOf(KEYS, "Rate limits").flatMap(([name = "", ...numbers]) => {
      const [limit = ""] = namesIn(name);
      return /^[a-z-]+$/.test(limit) ? [[limit, ...numbers.slice(0, 2)].join(" ")] : [];
    });
    assert.deepEqual(shown.toSorted(), expected.toSorted());
  });

  it("show every error code with its status, and every reason that the code has", () => {
    const rows = rowsOf(KEYS, "Errors");
    assert.deepEqual(
      rows.map(([code, status]) => [code, status]),
      Object.entries(ERROR_STATUS).map(([code, status]) => [`\`${code}\``, String(status)]),
    );
    const rated = rowsOf(KEYS, "Rate limits").flatMap((row) => namesIn(row.at(-1) ?? ""));
    const shown = new Set([...rows.flatMap(([, , reasons = ""]) => namesIn(reasons)), ...rated]);
    const missing = [...thrownReasons()].filter((reason) => !shown.has(reason) && !UNSEEN.has(reason));
    assert.deepEqual(missing, [], "reasons that the guide does not name");
    const source = files.flatMap(({ path, text }) => (path.startsWith("src/") ? [text] : [])).join("\n");
    const isThere = (reason: string) =>
      // Limits by address are named after the limit.
      source.includes(`"${reason}"`) || Object.keys(LIMITS).some((name) => reason === rateReason(name));
    assert.deepEqual(
      [...shown].filter((reason) => !isThere(reason)),
      [],
      "reasons that are nowhere in the code",
    );
  });

  it("show every setting of a project with its default", () => {
    const shown = rowsOf("docs/guides/economy.md", "Project settings").map(([name = "", value = ""]) => [
      ...namesIn(name),
      ...namesIn(value).map((text) => JSON.parse(text) as unknown),
    ]);
    assert.deepEqual(shown, Object.entries(DEFAULT_SETTINGS));
  });

  it("show every template of mails", () => {
    const shown = rowsOf(ACCOUNTS, "Mail").flatMap(([names = ""]) => namesIn(names));
    assert.deepEqual(shown.toSorted(), [...MAIL_TEMPLATES].toSorted());
  });

  it("name only operations that there are", () => {
    const patterns = routes.map(({ method, path }) => ({ method: method.toUpperCase(), path }));
    const paths = new Set(patterns.map(({ method, path }) => `${method} ${shape(path)}`));
    const named = files
      .filter(({ path }) => path.endsWith(".md"))
      .flatMap(({ path: file, text }) =>
        [...text.matchAll(/`(GET|POST|PUT|PATCH|DELETE) (\/[^`\s?]*)/g)].map(
          ([, method = "", path = ""]) => ({ file, method, path: path.replace(/^\/api\/v1/, "") }),
        ),
      )
      .filter(({ path }) => !/^\/(health|metrics|docs|openapi|matchmake|$)|…/.test(path));
    assert.ok(named.length > 50);
    assert.deepEqual(
      named.filter(({ method, path }) => !paths.has(`${method} ${shape(path)}`)),
      [],
    );
  });
});

describe("the documents", () => {
  it("name only files of the code that exist", () => {
    const isThere = (name: string) => files.some(({ path }) => `/${path}`.endsWith(`/${name}`));
    const named = files.flatMap(({ path, text }) =>
      path.endsWith(".md") ? namesIn(text.replaceAll(/^```[\s\S]*?^```$/gm, "")) : [],
    );
    const paths = named.filter((name) => /^[\w./-]+\.(ts|mjs)$/.test(name) && !isPlaceholder(name));
    assert.ok(paths.length > 60);
    assert.deepEqual(
      paths.filter((name) => !isThere(name)),
      [],
    );
  });
});

/** `x.ts`, `xs.ts` or `x-room.ts`: a file that a reader would add. */
const isPlaceholder = (path: string): boolean => /\bxs?(-room)?\.ts$/.test(path);

/** Documents shorten the names of parameters: only where they stand counts. */
const shape = (path: string): string =>
  path.replaceAll(/\{[^}]*\}|(?<=\/leaderboards\/)[^/{]+/g, "{}").replace(/\/$/, "");

const rateReason = (name: string): string =>
  `${name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}_RATE`;
