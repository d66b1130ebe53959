package config

import "reflect"

// Secrets returns the values of all secrets of a file, to leave them out of texts. Those that
// cannot be read are left out.
func (f *File) Secrets() []string {
	var all []string
	var walk func(reflect.Value)
	walk = func(v reflect.Value) {
		if s, ok := v.Interface().(Secret); ok {
			if text, err := s.Read(); err == nil && text != "" {
				all = append(all, text)
			}
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for _, field := range fieldsOf(v.Type()) {
				walk(v.FieldByIndex(field.index))
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			for it := v.MapRange(); it.Next(); {
				walk(it.Value())
			}
		}
	}
	walk(reflect.ValueOf(f).Elem())
	return all
}
