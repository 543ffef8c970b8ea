/**
 * The words that remain of common passwords of leaked lists that satisfy the rules, without digits and signs:
 * "Passw0rd!", "Welcome1" and "Qwerty123" all reduce to words of this list. It is not one of the lists
 * themselves.
 */
const WORDS = new Set(
  (
    "a aa aaa aaaa abc abcd abcde abcdef abcdefg abcdefgh access admin administrator adminadmin asd asdasd " +
    "asdf asdfg asdfgh asdfghjkl azerty baseball batman changeit changeme charlie chocolate computer " +
    "daniel default demo dragon facebook flower football freedom google guest hallo hello hockey hunter " +
    "iloveyou internet jennifer jessica jordan killer laurel letmein liverpool login love lovely loveme " +
    "master michael michelle monkey mypassword nicole ninja parola pass passe passwd passwort password " +
    "passwordpassword pokemon princess q qaz qazwsx qazwsxedc qq qwe qweasd qweasdzxc qweqwe qwer qwert " +
    "qwerty qwertyuiop qwertz root secret shadow soccer starwars summer autumn winter spring sunshine " +
    "superman temp temporary test tester testing testtest trustno user welcome whatever zaq zaqxsw zxc " +
    "zxcvbn zxcvbnm"
  ).split(" "),
);

const LEET: Readonly<Record<string, string>> = {
  "0": "o",
  "1": "i",
  "3": "e",
  "4": "a",
  "5": "s",
  "7": "t",
  "@": "a",
  $: "s",
  "!": "i",
};

/** Digits and signs; emoji are not among them, since attackers do not try those first. */
const SIGNS = String.raw`[\p{Nd}\p{P}\p{Sc}\p{Sk}\p{Sm}\s]`;
const ALL_SIGNS = new RegExp(SIGNS, "gu");
const OUTER_SIGNS = new RegExp(`^${SIGNS}+|${SIGNS}+$`, "gu");

const lettersOf = (text: string): string => text.toLowerCase().replace(ALL_SIGNS, "");

/** Digits and signs at both ends are removed; those inside stand for letters. */
const unleeted = (text: string): string =>
  lettersOf(text.replace(OUTER_SIGNS, "").replace(/[013457@$!]/g, (sign) => LEET[sign] ?? sign));

/**
 * Returns whether a password is one of the `known` words (a name, an address) or a common one, with digits
 * and signs around it.
 */
export const isGuessable = (password: string, known: readonly string[]): boolean => {
  const words = new Set(known.map(lettersOf).filter((word) => word !== ""));
  return [lettersOf(password), unleeted(password)].some((core) => WORDS.has(core) || words.has(core));
};
