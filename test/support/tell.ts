/** Says behind the name of the running test what it has measured. */
export const tell = ({ test }: Mocha.Context, text: string): void => {
  if (test) test.title += ` (${text})`;
};
