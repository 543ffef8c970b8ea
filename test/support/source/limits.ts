import { posix } from "node:path";
import { type SourceFile, withoutComments } from "./source-files.ts";

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
export const limitsOfCallers = (files: readonly SourceFile[]): Set<string> =>
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
export const listedLimits = (files: readonly SourceFile[]): Set<string> =>
  new Set(
    files
      .filter(({ path }) => path.startsWith("src/http/listed-limits/"))
      .flatMap((file) => [...importsIn(file)].map(([name, path]) => `${path} ${name}`)),
  );
