import assert from "node:assert/strict";
import { posix } from "node:path";
import { readSourceFiles, type SourceFile, withoutComments } from "./support/source/source-files.ts";

/** Modules that declare limits of callers and nothing else. */
const OF_LIMITS = /^src\/domain\/(kernel\/limits|social\/lobbies\/(room-)?limits)\.ts$/;
const DECLARED = /^export const ([A-Z][A-Z0-9_]*)\b/gm;
/** A document's maximum size. */
const SIZE = /^export const ([A-Z][A-Z0-9_]*_MAX_BYTES)\b/gm;
/** Refusals because of what exists already: they say how much of it there may be. */
const REFUSAL = /\b(?:conflict|planLimitExceeded|retryLater)\([^;]*;/g;
const QUOTED = /\$\{[^}]*?\b([A-Z][A-Z0-9_]*_MAX(?:_[A-Z]+)?|[A-Z][A-Z0-9_]*_RATE)\b[^}]*\}/g;

const namesIn = (text: string, pattern: RegExp): string[] =>
  [...text.matchAll(pattern)].map(([, name]) => name!);

/** The constants that a file imports, by name: the paths of the files that declare them. */
const importsIn = ({ path, text }: SourceFile): Map<string, string> =>
  new Map(
    [...text.matchAll(/\bimport \{([^}]*)\} from "(\.[^"]*)"/g)].flatMap(([, names, specifier]) =>
      names!
        .split(",")
        .map((name) => name.trim().split(" as ")[0]!)
        .filter((name) => /^[A-Z][A-Z0-9_]*$/.test(name))
        .map((name) => [name, posix.join(posix.dirname(path), specifier!)] as const),
    ),
  );

/** `path NAME` of a constant, where it is declared. */
const placeOf = (file: SourceFile, name: string): string =>
  `${importsIn(file).get(name) ?? file.path} ${name}`;

/**
 * `path NAME` of each constant that limits what callers may do: those of the modules of limits, sizes of
 * documents, and numbers that a refusal names because so many exist already.
 */
const limitsOfCallers = (files: readonly SourceFile[]): Set<string> =>
  new Set(
    files
      .filter(({ path }) => path.startsWith("src/domain/"))
      .map(({ path, text }) => ({ path, text: withoutComments(text) }))
      .flatMap((file) => [
        ...namesIn(file.text, OF_LIMITS.test(file.path) ? DECLARED : SIZE).map(
          (name) => `${file.path} ${name}`,
        ),
        ...[...file.text.matchAll(REFUSAL)].flatMap(([refusal]) =>
          namesIn(refusal, QUOTED).map((name) => placeOf(file, name)),
        ),
      ]),
  );

/** `path NAME` of each constant that `GET /limits` lists. */
const listedLimits = (files: readonly SourceFile[]): Set<string> =>
  new Set(
    files
      .filter(({ path }) => path.startsWith("src/http/listed-limits/"))
      .flatMap((file) => [...importsIn(file)].map(([name, path]) => `${path} ${name}`)),
  );

/** Limits that are not listed, and why. */
const UNLISTED: ReadonlyMap<string, string> = new Map([
  ["src/domain/evaluation/left-out.ts STORED_MAX_BYTES", "of what is stored already"],
  ["src/domain/evaluation/left-out.ts DOCUMENT_MAX_BYTES", "of what is stored already"],
  ["src/domain/kernel/limits.ts PATCH_MORE_BYTES", "beside that of the whole document"],
  ["src/domain/accounts/sso/configuration.ts SSO_DOMAINS_MAX", "of a field: /openapi.json has it"],
  ["src/domain/kernel/limits.ts EXTERNAL_ID_MAX", "of a field: /openapi.json has it"],
  ["src/domain/kernel/limits.ts ROTATION_GRACE_SECONDS", "the default of a field"],
  ["src/domain/kernel/limits.ts ROTATION_GRACE_SECONDS_MAX", "of a field: /openapi.json has it"],
  ["src/domain/kernel/live-rooms.ts ROOM_STATE_MAX_BYTES", "of an answer to super-admins"],
  ["src/domain/rules/lifecycle/order.ts COPIES_MAX", "of names that are tried for a copy"],
]);

describe("limits of callers", () => {
  const files = readSourceFiles();
  const declared = limitsOfCallers(files);
  const listed = listedLimits(files);

  it("are all listed at GET /limits, by the constants that the code goes by", () => {
    const missing = [...declared].filter((place) => !listed.has(place) && !UNLISTED.has(place));
    assert.deepEqual(missing, [], "add a line in src/http/listed-limits");
  });

  it("are left out on purpose only where they exist and are not listed", () => {
    const idle = [...UNLISTED.keys()].filter((place) => !declared.has(place) || listed.has(place));
    assert.deepEqual(idle, []);
  });
});
