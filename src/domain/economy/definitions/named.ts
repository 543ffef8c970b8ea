import { notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { type Outcome, together } from "../../kernel/together.ts";
import { Definition } from "./definitions.ts";

/** A definition of a project: `ref` is its UUID or key. */
export type DefinitionName = { projectId: string; kind: string; ref: string };

/**
 * As `getDefinition`, together with the others who share the transaction; the result is for reading alone.
 * @throws DomainError NOT_FOUND
 */
export const readDefinition = together({
  phase: "READS",
  isWrite: false,
  run: async ({ em }, names: readonly DefinitionName[]) => {
    const refs = [...new Set(names.map(({ ref }) => ref))];
    const ids = refs.filter(isId).map((ref) => ref.toLowerCase());
    const kinds = [...new Set(names.map(({ kind }) => kind))];
    const found = await em.find(
      Definition,
      {
        projectId: names[0]!.projectId,
        kind: { $in: kinds },
        $or: [{ key: { $in: refs } }, ...(ids.length > 0 ? [{ id: { $in: ids } }] : [])],
      },
      { disableIdentityMap: true },
    );
    return names.map(({ kind, ref }): Outcome<Definition> => {
      const ofKind = found.filter((one) => one.kind === kind);
      const value =
        ofKind.find(({ id }) => id === ref.toLowerCase()) ?? ofKind.find(({ key }) => key === ref);
      return value ? { value } : { error: notFound(kind) };
    });
  },
});
