// The articles that generateStaticParams prerenders. Any other slug but
// "missing" is rendered when first asked for.
export const articles = {
  rye: { title: 'Rye', text: 'Dense, dark, and better on the second day.' },
  wheat: { title: 'Wheat', text: 'Light, and gone by the evening.' },
};
