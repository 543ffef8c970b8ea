type IssueLike = { code?: string | undefined; keys?: string[] };

/** Names every field that is not known, so that a reader sees what to leave out. */
export const unknownFields = (sentence: string) => ({
  error: (issue: unknown) => {
    const { code, keys } = issue as IssueLike;
    return code === "unrecognized_keys" ? `${keys!.join(", ")}: ${sentence}` : undefined;
  },
});

export const NOT_SUPPORTED = unknownFields("not supported");
