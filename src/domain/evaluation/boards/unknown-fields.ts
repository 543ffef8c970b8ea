type IssueLike = { code?: string | undefined; keys?: string[] };

/** Builds the error that names every unknown field. */
export const unknownFields = (sentence: string) => ({
  error: (issue: unknown) => {
    const { code, keys } = issue as IssueLike;
    return code === "unrecognized_keys" ? `${keys!.join(", ")}: ${sentence}` : undefined;
  },
});

export const NOT_SUPPORTED = unknownFields("not supported");
