import type { z } from "zod";
import type { Json } from "../../kernel/events/events.ts";
import { DEFINITION_MAX_BYTES } from "../../kernel/limits.ts";
import { boundBytes } from "../../kernel/oversize.ts";
import type { Work } from "../../kernel/work.ts";
import type { Defined } from "../../evaluation/live.ts";

/**
 * A kind of definition: currencies, badges and so on. All kinds share one table, one set of operations and
 * one way to be exported and imported; add one by a `kind.ts` in its feature's folder and a line in
 * `registries/definition-kinds.ts`.
 */
export type DefinitionKind<D extends Defined = Defined> = {
  /** Singular, as in audit actions: `badge`. */
  kind: string;
  /** Plural, as in paths and in exported documents: `badges`. */
  plural: string;
  /** How the documentation's pages call it: `Badges`. */
  tag: string;
  /** The whole definition with its defaults filled in. */
  schema: z.ZodType<D>;
  /** Fields without which none can be made, for the shape of a partial change. */
  shape: z.ZodObject;
  /** Definitions of one project that are not archived. */
  max: number;
  /**
   * Refuses what the schema cannot see: names of things that are not there, changes that would make what
   * players hold untrue. `before` is what it replaces. @throws DomainError VALIDATION_ERROR, CONFLICT
   */
  check?(work: Work, projectId: string, definition: D, before: D | undefined): Promise<void>;
  /** Fields that are shown and not kept: what counts as of now. */
  extra?: {
    shape: z.ZodRawShape;
    /** The fields of some definitions, by key: one statement. */
    read(work: Work, projectId: string, keys: readonly string[]): Promise<Map<string, Json>>;
  };
};

/** A kind whose documents are bounded in bytes before they are parsed. */
export const definitionKind = <D extends Defined>(kind: DefinitionKind<D>): DefinitionKind<D> => {
  boundBytes(kind.schema, DEFINITION_MAX_BYTES);
  return kind;
};
