import type { Work } from "../../kernel/work.ts";
import type { Stored } from "../../evaluation/live.ts";
import { loadDefinitions } from "../../progression/load-definitions.ts";

/** A project's definitions that are not archived, by kind and key. */
export class Catalogue {
  readonly #byKind = new Map<string, Map<string, Stored>>();

  constructor(definitions: ReadonlyMap<string, readonly Stored[]>) {
    for (const [kind, ofKind] of definitions) for (const stored of ofKind) this.put(kind, stored);
  }

  get(kind: string, key: string): Stored | undefined {
    return this.#byKind.get(kind)?.get(key);
  }

  /** Adds a definition, or replaces the one with its key. */
  put(kind: string, stored: Stored): void {
    const ofKind = this.#byKind.get(kind) ?? new Map<string, Stored>();
    this.#byKind.set(kind, ofKind);
    ofKind.set(stored.definition.key, stored);
  }

  all(kind: string): Stored[] {
    return [...(this.#byKind.get(kind)?.values() ?? [])];
  }

  /** Returns all definitions by kind, in the form of `loadDefinitions`. */
  byKind(): Map<string, Stored[]> {
    return new Map([...this.#byKind.keys()].map((kind) => [kind, this.all(kind)]));
  }
}

const held = new WeakMap<Work["em"], Map<string, Catalogue>>();

export const loadCatalogue = async (work: Work, projectId: string): Promise<Catalogue> =>
  new Catalogue(await loadDefinitions(work, projectId));

/**
 * Reads a project's definitions once for all checks of a transaction that changes many of them. Must be
 * called under the exclusive config lock. From then on the caller adds each change to the catalogue: checks
 * read that and not the tables.
 */
export const holdCatalogue = async (work: Work, projectId: string): Promise<Catalogue> => {
  const catalogue = await loadCatalogue(work, projectId);
  const ofWork = held.get(work.em) ?? new Map<string, Catalogue>();
  held.set(work.em, ofWork.set(projectId, catalogue));
  return catalogue;
};

/** Returns this transaction's catalogue; undefined when it reads the tables. */
export const heldCatalogue = ({ em }: Work, projectId: string): Catalogue | undefined =>
  held.get(em)?.get(projectId);

/** Makes checks read the tables again. */
export const releaseCatalogue = ({ em }: Work, projectId: string): void =>
  void held.get(em)?.delete(projectId);
